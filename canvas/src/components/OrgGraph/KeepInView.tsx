import { useReactFlow, useStore } from '@xyflow/react';
import { useEffect } from 'react';
import type { ReactNode, RefObject } from 'react';

import type { TreeLayout } from '@/engine/tree';

interface Props {
  readonly layout: TreeLayout;
  readonly movedByHand: RefObject<boolean>;
}

/** Shows the whole tree when it or the room for it changes, until the reader chooses a view of their own. */
export function KeepInView({ layout, movedByHand }: Props): ReactNode {
  const { fitView } = useReactFlow();
  const width = useStore((state) => state.width);
  const height = useStore((state) => state.height);
  const members = layout.places.map(({ id }) => id).join();
  useEffect(() => {
    if (width === 0 || movedByHand.current) return;
    void fitView({ padding: 0.15, maxZoom: 1 });
  }, [fitView, width, height, members, movedByHand]);
  return null;
}
