import { describe, expect, it } from 'vitest';

import { readCard } from '@/engine/card';

const way = (protocolBinding: string, protocolVersion: string) => ({
  url: 'https://molecule.example.org/agents/w',
  protocolBinding,
  protocolVersion,
});

const CARD = {
  name: 'Docs bot',
  description: 'Reads the documentation.',
  version: '2.3.1',
  provider: { organization: 'Acme', url: 'https://acme.example.org' },
  documentationUrl: 'https://acme.example.org/manual',
  capabilities: { streaming: true, pushNotifications: false, extensions: [{ uri: 'urn:acme:1' }] },
  supportedInterfaces: [way('JSONRPC', '1.0'), way('HTTP+JSON', '1.0'), way('JSONRPC', '1.0')],
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain', 'image/png'],
  skills: [
    { id: 'find', name: 'Find', description: 'Names the page.', tags: ['search'] },
    { id: 'chat', name: 'Chat', description: 'Chat' },
  ],
};

describe('reading a card', () => {
  it('keeps what a person wants to know', () => {
    expect(readCard(CARD)).toEqual({
      name: 'Docs bot',
      description: 'Reads the documentation.',
      version: '2.3.1',
      provider: 'Acme',
      documentationUrl: 'https://acme.example.org/manual',
      skills: [
        { name: 'Find', description: 'Names the page.' },
        { name: 'Chat', description: '' },
      ],
      moreSkills: 0,
      bindings: ['JSONRPC 1.0', 'HTTP+JSON 1.0'],
      capabilities: ['streaming', 'urn:acme:1'],
      takes: ['text/plain'],
      gives: ['text/plain', 'image/png'],
      url: 'https://molecule.example.org/agents/w',
    });
  });

  it('says nothing twice', () => {
    expect(readCard({ name: 'bot', description: 'bot' }).description).toBe('');
  });

  it.each([
    undefined,
    null,
    7,
    'a card',
    [],
    {},
    { name: {}, description: [], version: 1, provider: 'Acme', capabilities: 'all', skills: 'many' },
    { skills: [null, 7, [], {}, { name: '  ' }, { name: {} }], supportedInterfaces: { url: 7 } },
    { supportedInterfaces: [null, 7, { url: 7 }], capabilities: { streaming: 'yes', extensions: [null, { uri: 7 }] } },
  ])('finds nothing in %j, and does not fall', (body) => {
    const { skills, bindings, capabilities, ...rest } = readCard(body);
    expect([skills, capabilities]).toEqual([[], []]);
    expect(bindings.join('')).toBe('');
    expect(rest).toMatchObject({ name: '', description: '', version: '', documentationUrl: null, url: '' });
  });

  it('cuts a card that is too large for a page, and says what is missing', () => {
    const skills = Array.from({ length: 1000 }, () => ({ name: 'n'.repeat(5000), description: 'd'.repeat(5000) }));
    const card = readCard({ name: 'N'.repeat(100_000), description: 'D'.repeat(100_000), skills });
    expect(card.skills.length + card.moreSkills).toBe(1000);
    expect(JSON.stringify(card).length).toBeLessThan(60_000);
  });

  it.each(['javascript:alert(1)', ' javascript:alert(1)', 'data:text/html,x', '//acme.example.org', 'https://', 7])(
    'makes no link of %j',
    (documentationUrl) => {
      expect(readCard({ documentationUrl }).documentationUrl).toBeNull();
    },
  );
});
