import type { ReactNode } from 'react';

import { lookOf } from '@/engine/status';

import './style.css';

/** A dot for the eye, a word for the meaning. */
export function StatusWord({ status }: { readonly status: string }): ReactNode {
  const { label, tone } = lookOf(status);
  return (
    <span className="status-word" data-tone={tone}>
      <span className="status-word-dot" aria-hidden="true" />
      {label}
    </span>
  );
}
