import { newId } from '@/engine/ids';

/** What this browser remembers between visits. Losing it is an inconvenience, never an error. */
export interface Memory {
  read(key: string): string | null;
  write(key: string, value: string): void;
}

/** The browser's storage; where it is switched off, a memory that ends with the page. */
export function browserMemory(): Memory {
  const fallback = new Map<string, string>();
  return {
    read: (key) => {
      try {
        return localStorage.getItem(key);
      } catch {
        return fallback.get(key) ?? null;
      }
    },
    write: (key, value) => {
      try {
        localStorage.setItem(key, value);
      } catch {
        fallback.set(key, value);
      }
    },
  };
}

/** The A2A context of this browser's conversation with an agent: made once, then always the same. */
export function contextFor(memory: Memory, agentId: string): string {
  const key = `molecule.context.${agentId}`;
  const known = memory.read(key);
  if (known !== null) return known;
  const fresh = newId();
  memory.write(key, fresh);
  return fresh;
}
