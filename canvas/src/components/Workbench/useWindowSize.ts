import { useMemo, useSyncExternalStore } from 'react';

import type { Size } from '@/engine/layout';

function onResize(changed: () => void): () => void {
  window.addEventListener('resize', changed);
  return () => {
    window.removeEventListener('resize', changed);
  };
}

/** The size of the window; the same object until it changes. */
export function useWindowSize(): Size {
  const width = useSyncExternalStore(onResize, () => window.innerWidth);
  const height = useSyncExternalStore(onResize, () => window.innerHeight);
  return useMemo(() => ({ width, height }), [width, height]);
}
