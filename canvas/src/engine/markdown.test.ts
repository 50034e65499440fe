import { describe, expect, it } from 'vitest';

import { readMarkdown } from '@/engine/markdown';
import type { Block, Inline } from '@/engine/markdown';

const text = (words: string) => ({ kind: 'text', text: words });
const paragraph = (...inlines: unknown[]) => ({ kind: 'paragraph', inlines });

/** Every word that would be shown. */
const inlineWords = (inlines: readonly Inline[]): string =>
  inlines.map((one) => ('inlines' in one ? inlineWords(one.inlines) : 'text' in one ? one.text : '\n')).join('');

const hrefs = (value: unknown): string[] =>
  [...JSON.stringify(value).matchAll(/"href":"([^"]*)"/g)].map(([, href]) => href ?? '');

describe('reading Markdown', () => {
  it('knows what agents write', () => {
    expect(readMarkdown('# Tea\n\nGreen **and** *black* `cha`\n')).toEqual([
      { kind: 'heading', level: 1, inlines: [text('Tea')] },
      paragraph(
        text('Green '),
        { kind: 'strong', inlines: [text('and')] },
        text(' '),
        { kind: 'emphasis', inlines: [text('black')] },
        text(' '),
        { kind: 'code', text: 'cha' },
      ),
    ]);
    expect(readMarkdown('```python\nprint("<b>")\n```')).toEqual([{ kind: 'code', text: 'print("<b>")' }]);
    expect(readMarkdown('> quoted')).toEqual([{ kind: 'quote', blocks: [paragraph(text('quoted'))] }]);
    expect(readMarkdown('---')).toEqual([{ kind: 'rule' }]);
  });

  it('reads lists, numbered ones from where they begin', () => {
    expect(readMarkdown('- a\n- b')).toMatchObject([{ kind: 'list', start: null, items: [[{}], [{}]] }]);
    expect(readMarkdown('3. a\n4. b')).toMatchObject([{ kind: 'list', start: 3 }]);
    expect(JSON.stringify(readMarkdown('- [x] done\n- [ ] open'))).toMatch(/☑.*done.*☐.*open/);
  });

  it('reads tables', () => {
    expect(readMarkdown('| a | b |\n|---|---|\n| 1 | 2 |')).toEqual([
      { kind: 'table', head: [[text('a')], [text('b')]], rows: [[[text('1')], [text('2')]]] },
    ]);
  });

  it('keeps single line ends', () => {
    expect(readMarkdown('one\ntwo')).toEqual([paragraph(text('one'), { kind: 'break' }, text('two'))]);
  });

  it('reads what is only half there, as while an answer grows', () => {
    expect(readMarkdown('**bol')).toEqual([paragraph(text('**bol'))]);
    expect(readMarkdown('```\nhalf')).toEqual([{ kind: 'code', text: 'half' }]);
    expect(readMarkdown('')).toEqual([]);
  });

  it('shows the signs that people write, not their codes', () => {
    expect(readMarkdown('a &amp; b &lt; c < d & e \\* f')).toEqual([paragraph(text('a & b < c < d & e '), text('*'), text(' f'))]);
  });
});

describe('Markdown that means harm', () => {
  it('shows HTML as the text that it is', () => {
    for (const html of ['<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '<div>\n<b>hi</b>\n</div>', 'a <u>b</u>']) {
      const blocks = readMarkdown(html);
      expect(blocks.every(({ kind }) => kind === 'paragraph')).toBe(true);
      expect(blocks.map((block) => ('inlines' in block ? inlineWords(block.inlines) : '')).join('')).toContain(html.slice(0, 4));
    }
  });

  it('leads only to web pages and mail', () => {
    const ways = ['javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'data:text/html,x', 'vbscript:x', '/auth/logout', '//evil.example'];
    for (const href of ways) {
      expect(hrefs(readMarkdown(`[click](${href}) <${href}>`)), href).toEqual([]);
    }
    expect(hrefs(readMarkdown('[a](https://a.example) <mailto:b@a.example> https://c.example'))).toEqual([
      'https://a.example',
      'mailto:b@a.example',
      'https://c.example',
    ]);
  });

  it('loads no image: it is a link to it', () => {
    const blocks: readonly Block[] = readMarkdown('![a cat](https://tracker.example/cat.png)');
    expect(blocks).toEqual([
      paragraph({ kind: 'link', href: 'https://tracker.example/cat.png', inlines: [text('a cat')] }),
    ]);
  });

  it('bears depth and length', () => {
    for (const source of ['>'.repeat(5000), '- '.repeat(3000), '*'.repeat(9000), '['.repeat(5000), 'x'.repeat(500_000)]) {
      expect(readMarkdown(source).length).toBeLessThan(100);
    }
  }, 10_000);
});
