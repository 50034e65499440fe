import { ControlButton, Controls, useReactFlow, useStore } from '@xyflow/react';
import { useCallback, useEffect, useRef } from 'react';
import type { ReactNode, RefObject } from 'react';

import { isReadable } from '@/engine/layout';
import type { Layout } from '@/engine/layout';
import { inside, viewOf, viewWith } from '@/engine/view';
import { useCanvas } from '@/store/platform';

interface Props {
  readonly layout: Layout;
  readonly movedByHandRef: RefObject<boolean>;
}

const WHOLE = { x: 0, y: 0 };

/**
 * Decides what part of the graph is shown: all of it, until the reader moves it or names would get too small to read.
 * Then it only moves as far as it must for the open agent, or the team that was opened, to be seen.
 */
export function Viewport({ layout, movedByHandRef }: Props): ReactNode {
  const { setViewport, getViewport } = useReactFlow();
  const width = useStore((state) => state.width);
  const height = useStore((state) => state.height);
  const selectedId = useCanvas((state) => state.selectedId);
  const lookedFor = useCanvas((state) => state.lookedFor);
  const lastTeams = useRef<Layout['areas'] | null>(null);
  const isPlaced = useRef(false);

  const showAll = useCallback(() => {
    isPlaced.current = true;
    void setViewport(viewOf({ ...WHOLE, width: layout.width, height: layout.height }, { width, height }));
  }, [layout, width, height, setViewport]);

  // A new layout, or more or less room: show all of it if that can be read, else the team that was just opened.
  useEffect(() => {
    if (width === 0) return;
    const area = { width, height };
    const opened = [...layout.areas.values()].filter(({ id }) => lastTeams.current?.has(id) === false);
    lastTeams.current = layout.areas;
    const [team] = opened;
    const fits = isReadable(layout, inside(area));
    if (!isPlaced.current || (fits && !movedByHandRef.current)) showAll();
    else if (opened.length === 1 && team !== undefined) void setViewport(viewOf(team, area));
    else if (selectedId === null && !movedByHandRef.current) showAll();
    // The selection alone moves nothing here: the effect below sees to it.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [layout, width, height, movedByHandRef, showAll, setViewport]);

  useEffect(() => {
    const box = layout.boxes.find(({ id }) => id === selectedId);
    if (width === 0 || box === undefined) return;
    const { zoom, ...rest } = getViewport();
    const readable = Math.max(zoom, lookedFor?.agentId === selectedId ? layout.density.readableZoom : 0);
    void setViewport(viewWith({ ...rest, zoom: readable }, box, { width, height }));
  }, [layout, width, height, selectedId, lookedFor, getViewport, setViewport]);

  return (
    <Controls showInteractive={false} showFitView={false} position="bottom-left">
      <ControlButton
        title="Show all agents"
        aria-label="Show all agents"
        onClick={() => {
          movedByHandRef.current = false;
          showAll();
        }}
      >
        <svg viewBox="0 0 24 24" aria-hidden="true">
          <path d="M3 9V3h6v2H5v4zm12-6h6v6h-2V5h-4zM5 15v4h4v2H3v-6zm14 0h2v6h-6v-2h4z" />
        </svg>
      </ControlButton>
    </Controls>
  );
}
