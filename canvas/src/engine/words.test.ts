import { describe, expect, it } from 'vitest';

import { counted, oneLine, shortened } from '@/engine/words';

describe('words of others', () => {
  it('are cut at a length, and never through a character', () => {
    expect(shortened('short', 5)).toBe('short');
    expect(shortened('a long one', 6)).toBe('a long…');
    expect(shortened('ab😀', 3)).toBe('ab…');
  });

  it('are put on one line', () => {
    expect(oneLine('  first\n\n\tsecond ', 80)).toBe('first second');
    expect(oneLine(' '.repeat(1_000_000), 80)).toBe('');
  });

  it('are counted in plain English', () => {
    expect([0, 1, 2].map((count) => counted(count, 'skill'))).toEqual(['0 skills', '1 skill', '2 skills']);
  });
});
