import type { ReactNode } from 'react';

import './style.css';

interface Props {
  readonly title: string;
  readonly children?: ReactNode;
  /** An error is announced at once; a state is not. */
  readonly urgent?: boolean;
}

/** A calm card in the middle of the room: what is the case, and what to do next. */
export function Notice({ title, children, urgent = false }: Props): ReactNode {
  return (
    <div className="notice-room">
      <div className="notice" role={urgent ? 'alert' : 'status'}>
        <h1 className="notice-title">{title}</h1>
        {children}
      </div>
    </div>
  );
}

/** A command to type, on a line of its own. */
export function TypeThis({ command }: { readonly command: string }): ReactNode {
  return (
    <pre className="notice-command">
      <code>{command}</code>
    </pre>
  );
}
