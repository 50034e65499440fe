import { useMemo } from 'react';
import type { ReactNode } from 'react';

import { readMarkdown } from '@/engine/markdown';
import type { Block, Cell, Inline } from '@/engine/markdown';

import './style.css';

/** Words of an agent with their Markdown. Only elements that are made here can come of it. */
export function Markdown({ text }: { readonly text: string }): ReactNode {
  const blocks = useMemo(() => readMarkdown(text), [text]);
  return (
    <div className="markdown" dir="auto">
      <Blocks blocks={blocks} />
    </div>
  );
}

// Nothing tells two pieces of a text apart but their place.
function Blocks({ blocks }: { readonly blocks: readonly Block[] }): ReactNode {
  return blocks.map((block, place) => <OneBlock key={place} block={block} />);
}

function OneBlock({ block }: { readonly block: Block }): ReactNode {
  switch (block.kind) {
    case 'paragraph':
      return (
        <p>
          <Inlines inlines={block.inlines} />
        </p>
      );
    case 'heading':
      return (
        <p className="markdown-heading" role="heading" aria-level={Math.min(6, block.level + 2)}>
          <Inlines inlines={block.inlines} />
        </p>
      );
    case 'code':
      return (
        <pre tabIndex={0}>
          <code>{block.text}</code>
        </pre>
      );
    case 'quote':
      return (
        <blockquote>
          <Blocks blocks={block.blocks} />
        </blockquote>
      );
    case 'list':
      return <List start={block.start} items={block.items} />;
    case 'table':
      return <Table head={block.head} rows={block.rows} />;
    case 'rule':
      return <hr />;
  }
}

interface ListProps {
  readonly start: number | null;
  readonly items: readonly (readonly Block[])[];
}

function List({ start, items }: ListProps): ReactNode {
  const rows = items.map((blocks, place) => (
    <li key={place}>
      <Blocks blocks={blocks} />
    </li>
  ));
  return start === null ? <ul>{rows}</ul> : <ol start={start}>{rows}</ol>;
}

interface TableProps {
  readonly head: readonly Cell[];
  readonly rows: readonly (readonly Cell[])[];
}

function Table({ head, rows }: TableProps): ReactNode {
  return (
    <div className="markdown-table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {head.map((cell, place) => (
              <th key={place}>
                <Inlines inlines={cell} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, place) => (
                <td key={place}>
                  <Inlines inlines={cell} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Inlines({ inlines }: { readonly inlines: readonly Inline[] }): ReactNode {
  return inlines.map((inline, place) => <OneInline key={place} inline={inline} />);
}

function OneInline({ inline }: { readonly inline: Inline }): ReactNode {
  switch (inline.kind) {
    case 'text':
      return inline.text;
    case 'code':
      return <code>{inline.text}</code>;
    case 'break':
      return <br />;
    case 'strong':
      return (
        <strong>
          <Inlines inlines={inline.inlines} />
        </strong>
      );
    case 'emphasis':
      return (
        <em>
          <Inlines inlines={inline.inlines} />
        </em>
      );
    case 'deleted':
      return (
        <del>
          <Inlines inlines={inline.inlines} />
        </del>
      );
    case 'link':
      return (
        <a href={inline.href} target="_blank" rel="noopener noreferrer nofollow">
          <Inlines inlines={inline.inlines} />
        </a>
      );
  }
}
