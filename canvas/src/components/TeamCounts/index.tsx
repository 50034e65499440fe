import type { ReactNode } from 'react';

import { countWords } from '@/engine/teams';
import type { Counts } from '@/engine/teams';

import './style.css';

/** How a team is, in figures and words; the colour only helps the eye. */
export function TeamCounts({ counts }: { readonly counts: Counts }): ReactNode {
  return (
    <span className="team-counts" data-testid="counts">
      {countWords(counts).map((words) => (
        <span key={words} className="team-counts-one" data-kind={words.split(' ').at(-1)}>
          {words}
        </span>
      ))}
    </span>
  );
}
