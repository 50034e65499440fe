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

describe("the page's copy", () => {
  it('follows what the agents say, once it was read', () => {
    const client = new QueryClient();
    const records = createRecords(client);
    const read = () => client.getQueryData<Record<string, { text: string }>>(['last-said']);
    records.fold(frame('before'));
    expect(read()).toBeUndefined();
    client.setQueryData(['last-said'], {});
    records.fold(frame('after'));
    expect(read()?.a?.text).toBe('after');
  });

  it('follows what becomes of the agents, once they were read', () => {
    const client = new QueryClient();
    const records = createRecords(client);
    const read = () => client.getQueryData<readonly { status: string }[]>(['workspaces']);
    const paused = { ...frame(''), event: 'WORKSPACE_PAUSED', payload: {} };
    records.fold(paused);
    expect(read()).toBeUndefined();
    client.setQueryData(['workspaces'], [{ id: 'a', status: 'online' }]);
    records.fold(paused);
    expect(read()?.[0]?.status).toBe('paused');
  });

  it('forgets everything with the session', () => {
    const client = new QueryClient();
    const api = createApi(() => Promise.resolve(new Response('[]')));
    const queries = [cardQuery(api, 'a'), conversationQuery(api, 'a'), lastSaidQuery(api), workspacesQuery(api)];
    queries.forEach(({ queryKey }) => client.setQueryData(queryKey, []));
    createRecords(client).clear();
    expect(client.getQueryCache().getAll().map(({ queryKey }) => queryKey)).toEqual([['session']]);
  });
});
