import type { After } from '@/engine/coalesce';
import { readFrame } from '@/engine/frames';
import type { Frame } from '@/engine/frames';

export type Connection = 'connecting' | 'live' | 'reconnecting';

/** An open or opening WebSocket, as far as it is used here. */
export interface Wire {
  close(): void;
}

export interface WireListener {
  opened(): void;
  received(data: unknown): void;
  closed(code: number): void;
}

export type OpenWire = (path: string, listener: WireListener) => Wire;

export interface StreamSettings {
  readonly open: OpenWire;
  readonly onFrame: (frame: Frame) => void;
  readonly onConnection: (connection: Connection) => void;
  /** The server ended the stream because of the credential, or never let it begin. */
  readonly onRefused: () => void;
  readonly after: After;
}

export interface Stream {
  stop(): void;
}

const FIRST_DELAY_MS = 500;
const LAST_DELAY_MS = 8_000;
const CREDENTIAL_CLOSES: ReadonlySet<number> = new Set([4001, 4003, 4009]);

export function delayBefore(attempt: number): number {
  return Math.min(FIRST_DELAY_MS * 2 ** attempt, LAST_DELAY_MS);
}

export function streamPath(lastId: string | null): string {
  return lastId === null ? '/ws' : `/ws?since=${encodeURIComponent(lastId)}`;
}

/** Follows the live events, and after every break takes up again behind the last event it saw. */
export function followStream(settings: StreamSettings): Stream {
  let lastId: string | null = null;
  let failures = 0;
  let stopped = false;
  let callOff: () => void = () => undefined;
  let wire: Wire | null = null;

  const receive = (data: unknown): void => {
    const frame = readFrame(data);
    if (frame === null || (frame.id !== null && frame.id === lastId)) return;
    // After a resync the old position is gone for good; asking for it again would only repeat the answer.
    lastId = frame.event === 'RESYNC_REQUIRED' ? null : (frame.id ?? lastId);
    settings.onFrame(frame);
  };

  const closed = (code: number, wasOpen: boolean): void => {
    if (stopped) return;
    settings.onConnection('reconnecting');
    if (!wasOpen || CREDENTIAL_CLOSES.has(code)) settings.onRefused();
    callOff = settings.after(delayBefore(failures), connect);
    failures += 1;
  };

  const connect = (): void => {
    let wasOpen = false;
    wire = settings.open(streamPath(lastId), {
      opened: () => {
        wasOpen = true;
        failures = 0;
        settings.onConnection('live');
      },
      received: receive,
      closed: (code) => {
        closed(code, wasOpen);
      },
    });
  };

  settings.onConnection('connecting');
  connect();
  return {
    stop: () => {
      stopped = true;
      callOff();
      wire?.close();
    },
  };
}
