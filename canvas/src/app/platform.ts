import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query';

import { openEventSource } from '@/app/browser';
import { createApi } from '@/engine/api';
import { RefusedError, isUnauthenticated } from '@/engine/errors';
import { createCanvasStore } from '@/store/canvas';
import { browserMemory } from '@/store/memory';
import type { Platform } from '@/store/platform';
import { createRecords } from '@/store/records';

const RETRIES = 2;

/** A refusal stays a refusal; only what may pass by itself is tried again. */
function isWorthRetrying(failures: number, error: Error): boolean {
  const refused = error instanceof RefusedError && error.status < 500;
  return !refused && failures < RETRIES;
}

export interface Assembly {
  readonly client: QueryClient;
  readonly platform: Platform;
}

/** The composition root: every part of the page is made here, once. */
export function assemble(): Assembly {
  const onError = (error: Error): void => {
    if (isUnauthenticated(error)) records.refreshSession();
  };
  const client = new QueryClient({
    queryCache: new QueryCache({ onError }),
    mutationCache: new MutationCache({ onError }),
    defaultOptions: { queries: { retry: isWorthRetrying } },
  });
  const api = createApi((url, init) => fetch(url, init), openEventSource);
  const records = createRecords(client, api);
  const memory = browserMemory();
  return { client, platform: { api, records, memory, canvas: createCanvasStore(memory) } };
}
