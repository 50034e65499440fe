import { useEffect, useId, useMemo, useRef, useState } from 'react';
import type { KeyboardEvent, ReactNode } from 'react';

import { reveal } from '@/commands/reveal';
import { StatusWord } from '@/components/StatusWord';
import { findAgents } from '@/engine/search';
import type { Workspace } from '@/engine/workspaces';
import { usePlatform } from '@/store/platform';

import './style.css';

const MOST = 8;

function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable]') !== null;
}

/** Finds an agent by its name: a combobox, so that everything goes by keyboard. The key / leads here. */
export function AgentSearch({ workspaces }: { readonly workspaces: readonly Workspace[] }): ReactNode {
  const platform = usePlatform();
  const [typed, setTyped] = useState('');
  const [marked, setMarked] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const listId = useId();
  const found = useMemo(() => findAgents(workspaces, typed, MOST), [workspaces, typed]);
  const isOpen = typed.trim() !== '';
  const current = found[Math.min(marked, found.length - 1)];

  useEffect(() => {
    const focusByKey = (event: globalThis.KeyboardEvent): void => {
      if (event.key !== '/' || isWriting(event.target)) return;
      event.preventDefault();
      field.current?.focus();
    };
    window.addEventListener('keydown', focusByKey);
    return () => {
      window.removeEventListener('keydown', focusByKey);
    };
  }, []);

  const type = (next: string): void => {
    setTyped(next);
    setMarked(0);
  };
  const open = (workspace: Workspace | undefined): void => {
    if (workspace === undefined) return;
    type('');
    reveal(platform, workspaces, workspace.id);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!isOpen || event.nativeEvent.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) setMarked((marked + step + found.length) % Math.max(1, found.length));
    else if (event.key === 'Enter') open(current);
    else if (event.key === 'Escape') type('');
    else return;
    // What is done here is done: Escape must not close the open agent as well.
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div className="agent-search">
      <input
        ref={field}
        className="agent-search-field"
        data-testid="search"
        type="search"
        role="combobox"
        autoComplete="off"
        placeholder="Find an agent ( / )"
        aria-label="Find an agent by name"
        aria-expanded={isOpen}
        aria-controls={listId}
        aria-activedescendant={isOpen && current !== undefined ? `${listId}-${current.id}` : undefined}
        value={typed}
        onChange={({ currentTarget }) => {
          type(currentTarget.value);
        }}
        onKeyDown={onKeyDown}
        onBlur={() => {
          type('');
        }}
      />
      <Found id={listId} isOpen={isOpen} found={found} current={current} onChoose={open} />
    </div>
  );
}

interface FoundProps {
  readonly id: string;
  readonly isOpen: boolean;
  readonly found: readonly Workspace[];
  readonly current: Workspace | undefined;
  readonly onChoose: (workspace: Workspace) => void;
}

function Found({ id, isOpen, found, current, onChoose }: FoundProps): ReactNode {
  return (
    <>
      <ul id={id} className="agent-search-found" role="listbox" aria-label="Agents found" hidden={!isOpen || found.length === 0}>
        {found.map((workspace) => (
          <li
            key={workspace.id}
            id={`${id}-${workspace.id}`}
            className="agent-search-one"
            role="option"
            aria-selected={workspace === current}
            // Before the field loses focus, which closes the list.
            onMouseDown={(event) => {
              event.preventDefault();
              onChoose(workspace);
            }}
          >
            <span className="agent-search-name">
              <bdi>{workspace.name}</bdi>
              {workspace.role !== '' && <bdi className="agent-search-role">{workspace.role}</bdi>}
            </span>
            <StatusWord status={workspace.status} />
          </li>
        ))}
      </ul>
      <p className="agent-search-found agent-search-none" role="status" hidden={!isOpen || found.length > 0}>
        {isOpen && found.length === 0 && 'No agent with this name or role.'}
      </p>
    </>
  );
}
