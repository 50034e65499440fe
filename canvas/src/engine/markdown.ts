import { Lexer } from 'marked';
import type { MarkedToken, Token, Tokens } from 'marked';

/** Markdown as a tree of what we show. There is no markup in it: HTML that somebody writes is text. */
export type Block =
  | { readonly kind: 'paragraph'; readonly inlines: readonly Inline[] }
  | { readonly kind: 'heading'; readonly level: number; readonly inlines: readonly Inline[] }
  | { readonly kind: 'code'; readonly text: string }
  | { readonly kind: 'quote'; readonly blocks: readonly Block[] }
  | { readonly kind: 'list'; readonly start: number | null; readonly items: readonly (readonly Block[])[] }
  | { readonly kind: 'table'; readonly head: readonly Cell[]; readonly rows: readonly (readonly Cell[])[] }
  | { readonly kind: 'rule' };

export type Cell = readonly Inline[];

export type Inline =
  | { readonly kind: 'text' | 'code'; readonly text: string }
  | { readonly kind: 'strong' | 'emphasis' | 'deleted'; readonly inlines: readonly Inline[] }
  | { readonly kind: 'link'; readonly href: string; readonly inlines: readonly Inline[] }
  | { readonly kind: 'break' };

/** Beyond this nobody reads on, and reading it as Markdown would keep the page busy. */
const LONGEST = 60_000;
const DEEPEST = 12;

const plain = (text: string): Inline => ({ kind: 'text', text });

const SIGNS: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', nbsp: '\u00a0', '#39': "'" };

/** Codes for signs, as some write them where Markdown needs none. */
function withSigns(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|nbsp|#39);/g, (code, name: string) => SIGNS[name] ?? code);
}

/** An address that a link may lead to; any other is shown as the words that it is. */
function safeHref(href: string): string | null {
  return /^(https?:\/\/|mailto:)/i.test(href) && URL.canParse(href) ? href : null;
}

function link(href: string, inlines: readonly Inline[]): Inline[] {
  const safe = safeHref(href);
  return safe === null ? [...inlines] : [{ kind: 'link', href: safe, inlines }];
}

function inlinesOf(tokens: readonly Token[] | undefined, depth: number): Inline[] {
  if (tokens === undefined) return [];
  if (depth > DEEPEST) return [plain(tokens.map(({ raw }) => raw).join(''))];
  return tokens.flatMap((token) => inlineOf(token as MarkedToken, depth + 1));
}

/* eslint-disable-next-line complexity -- one case for each kind of token */
function inlineOf(token: MarkedToken, depth: number): Inline[] {
  switch (token.type) {
    case 'strong':
      return [{ kind: 'strong', inlines: inlinesOf(token.tokens, depth) }];
    case 'em':
      return [{ kind: 'emphasis', inlines: inlinesOf(token.tokens, depth) }];
    case 'del':
      return [{ kind: 'deleted', inlines: inlinesOf(token.tokens, depth) }];
    case 'codespan':
      return [{ kind: 'code', text: token.text }];
    case 'br':
      return [{ kind: 'break' }];
    case 'link':
      return link(token.href, inlinesOf(token.tokens, depth));
    case 'image':
      // Nothing is loaded because an agent names it.
      return link(token.href, [plain(token.text || token.href)]);
    case 'text':
      return token.tokens === undefined ? [plain(withSigns(token.text))] : inlinesOf(token.tokens, depth);
    case 'escape':
      return [plain(token.text)];
    default:
      return [plain(token.raw)];
  }
}

function blocksOf(tokens: readonly Token[], depth: number): Block[] {
  if (depth > DEEPEST) return [{ kind: 'paragraph', inlines: [plain(tokens.map(({ raw }) => raw).join(''))] }];
  return tokens.flatMap((token) => blockOf(token as MarkedToken, depth + 1));
}

function blockOf(token: MarkedToken, depth: number): Block[] {
  switch (token.type) {
    case 'space':
    case 'def':
      return [];
    case 'heading':
      return [{ kind: 'heading', level: token.depth, inlines: inlinesOf(token.tokens, depth) }];
    case 'code':
      return [{ kind: 'code', text: token.text }];
    case 'blockquote':
      return [{ kind: 'quote', blocks: blocksOf(token.tokens, depth) }];
    case 'list':
      return [listOf(token, depth)];
    case 'table':
      return [tableOf(token, depth)];
    case 'hr':
      return [{ kind: 'rule' }];
    case 'paragraph':
      return [{ kind: 'paragraph', inlines: inlinesOf(token.tokens, depth) }];
    default:
      return [{ kind: 'paragraph', inlines: inlineOf(token, depth) }];
  }
}

function listOf({ ordered, start, items }: Tokens.List, depth: number): Block {
  const blocks = items.map(({ tokens, task, checked }) => {
    const inside = blocksOf(tokens.filter(({ type }) => type !== 'checkbox'), depth);
    const box: Block = { kind: 'paragraph', inlines: [plain(checked === true ? '☑' : '☐')] };
    return task ? [box, ...inside] : inside;
  });
  return { kind: 'list', start: ordered ? start || 1 : null, items: blocks };
}

function tableOf({ header, rows }: Tokens.Table, depth: number): Block {
  const cells = (row: readonly Tokens.TableCell[]): Cell[] => row.map(({ tokens }) => inlinesOf(tokens, depth));
  return { kind: 'table', head: cells(header), rows: rows.map(cells) };
}

/** Reads Markdown of any content; what cannot be read so is one paragraph of plain text. */
export function readMarkdown(source: string): readonly Block[] {
  const asText: Block[] = [{ kind: 'paragraph', inlines: [plain(source)] }];
  if (source.length > LONGEST) return asText;
  try {
    // A new line is a new line, as agents mean it.
    return blocksOf(new Lexer({ gfm: true, breaks: true }).lex(source), 0);
  } catch {
    // Nesting that is too deep for the reader's stack.
    return asText;
  }
}
