import { QueryClient } from '@tanstack/react-query';
import { describe, expect, it } from 'vitest';

import { createApi } from '@/engine/api';
import { cardQuery, conversationQuery, createRecords, lastSaidQuery, workspacesQuery } from '@/store/records';

const frame = (message: string) => ({
  id: '1',
  event: 'AGENT_MESSAGE',
  workspaceId: 'a',
  timestamp: '2026-05-02T10:00:00.000Z',
  payload: { message },
});

/** The copy of a page whose platform answers as told. */
function copy(answer: (url: string) => Promise<Response> = () => Promise.resolve(new Response('[]'))) {
  const client = new QueryClient();
  const api = createApi((url) => answer(url));
  return { client, api, records: createRecords(client, api) };
}

describe("the page's copy", () => {
  it('follows what the agents say, once it was read', () => {
    const { client, records } = copy();
    const read = () => client.getQueryData<Record<string, { text: string }>>(['last-said']);
    records.fold(frame('before'));
    expect(read()).toBeUndefined();
    client.setQueryData(['last-said'], {});
    records.fold(frame('after'));
    expect(read()?.a?.text).toBe('after');
  });

  it('follows what becomes of the agents, once they were read', () => {
    const { client, records } = copy();
    const read = () => client.getQueryData<readonly { status: string }[]>(['workspaces']);
    const paused = { ...frame(''), event: 'WORKSPACE_PAUSED', payload: {} };
    records.fold(paused);
    expect(read()).toBeUndefined();
    client.setQueryData(['workspaces'], [{ id: 'a', status: 'online' }]);
    records.fold(paused);
    expect(read()?.[0]?.status).toBe('paused');
  });

  it('forgets everything with the session', () => {
    const { client, api, records } = copy();
    const queries = [cardQuery(api, 'a'), conversationQuery(api, 'a'), lastSaidQuery(api), workspacesQuery(records)];
    queries.forEach(({ queryKey }) => client.setQueryData(queryKey, []));
    records.clear();
    expect(client.getQueryCache().getAll().map(({ queryKey }) => queryKey)).toEqual([['session']]);
  });
});

describe('reading rows while events go on', () => {
  const statuses = (rows: readonly { status: string }[] | undefined) => rows?.map(({ status }) => status);
  const heard = (event: string, workspaceId = 'a') => ({ ...frame(''), event, workspaceId, payload: {} });

  it('lets an event that came meanwhile win over the older answer', async () => {
    const { records } = copy(() => {
      records.fold(heard('WORKSPACE_PAUSED'));
      return Promise.resolve(Response.json([{ id: 'a', status: 'online' }]));
    });
    expect(statuses(await records.readWorkspaces())).toEqual(['paused']);
    expect(statuses(await records.readWorkspaces())).toEqual(['paused']);
  });

  it('reads one row without touching the others', async () => {
    const asked: string[] = [];
    const { client, records } = copy((url) => {
      asked.push(url);
      return Promise.resolve(Response.json({ id: 'b', status: 'degraded', status_reason: 'many errors' }));
    });
    const [other, old] = [{ id: 'a', status: 'online' }, { id: 'b', status: 'online' }];
    client.setQueryData(['workspaces'], [other, old]);
    await records.refreshWorkspace('b');
    const rows = client.getQueryData<readonly { status: string; statusReason?: string }[]>(['workspaces']);
    expect(asked).toEqual(['/workspaces/b']);
    expect(rows?.[0]).toBe(other);
    expect(rows?.[1]).toMatchObject({ status: 'degraded', statusReason: 'many errors' });
  });

  it('takes up a new agent, and forgets one that is gone', async () => {
    const { client, records } = copy((url) =>
      Promise.resolve(url.endsWith('/new') ? Response.json({ id: 'new', status: 'online' }) : new Response('{}', { status: 404 })),
    );
    client.setQueryData(['workspaces'], [{ id: 'a', status: 'online' }]);
    expect(records.lacks(heard('WORKSPACE_AWAITING_AGENT', 'new'))).toBe(true);
    await records.refreshWorkspace('new');
    await records.refreshWorkspace('a');
    expect(client.getQueryData<readonly { id: string }[]>(['workspaces'])?.map(({ id }) => id)).toEqual(['new']);
  });
});
