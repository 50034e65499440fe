import type { ReactNode } from 'react';

import './style.css';

export interface Fact {
  readonly name: string;
  readonly value: ReactNode;
}

/** Names and values, one below the other. A fact without a value is not shown. */
export function Facts({ facts }: { readonly facts: readonly Fact[] }): ReactNode {
  return (
    <dl className="facts">
      {facts
        .filter(({ value }) => value !== null && value !== '')
        .map(({ name, value }) => (
          <div key={name} className="facts-fact">
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
