import { describe, expect, it } from 'vitest';

import { findAgents } from '@/engine/search';
import { readWorkspaces } from '@/engine/workspaces';

const rows = readWorkspaces([
  { id: '1', name: 'copywriter' },
  { id: '2', name: 'Zoë the writer' },
  { id: '3', name: 'writer-2' },
  { id: '4', name: 'ada', role: 'Writes poems' },
  { id: '5', name: 'lead' },
]);

const found = (typed: string, most = 8) => findAgents(rows, typed, most).map(({ id }) => id);

describe('finding an agent', () => {
  it('puts names that begin so first, then words, then parts, then roles', () => {
    expect(found('writ')).toEqual(['3', '2', '1', '4']);
  });

  it('cares for neither case, accents nor spaces around', () => {
    expect(found(' ZOE ')).toEqual(['2']);
  });

  it('finds nobody for nothing, and not more than asked for', () => {
    expect(found('')).toEqual([]);
    expect(found('  ')).toEqual([]);
    expect(found('xyz')).toEqual([]);
    expect(found('writ', 2)).toEqual(['3', '2']);
  });
});
