import type { ReactNode } from 'react';

import type { Connection } from '@/engine/socket';
import { useCanvas } from '@/store/platform';

import './style.css';

const WORDS: Readonly<Record<Connection, string>> = {
  connecting: 'connecting…',
  live: 'live',
  reconnecting: 'reconnecting…',
};

export function ConnectionPill(): ReactNode {
  const connection = useCanvas((state) => state.connection);
  return (
    <span className="connection-pill" data-testid="connection" data-connection={connection} role="status">
      <span className="connection-pill-dot" aria-hidden="true" />
      {WORDS[connection]}
    </span>
  );
}
