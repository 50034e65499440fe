import type { OpenEvents } from '@/engine/api';
import type { After } from '@/engine/coalesce';
import { STREAM_EVENTS } from '@/engine/growing';
import type { OpenWire } from '@/engine/socket';

/** The browser's own parts, in the shapes the engine asks for. */
export const openWebSocket: OpenWire = (path, listener) => {
  const scheme = window.location.protocol === 'https:' ? 'wss' : 'ws';
  const socket = new WebSocket(`${scheme}://${window.location.host}${path}`);
  socket.onopen = () => {
    listener.opened();
  };
  socket.onmessage = ({ data }: MessageEvent<unknown>) => {
    listener.received(data);
  };
  socket.onclose = ({ code }) => {
    listener.closed(code);
  };
  return socket;
};

/** Reconnects behind the last event by itself; the session's cookie goes along. */
export const openEventSource: OpenEvents = (path, onEvent) => {
  const source = new EventSource(path);
  for (const name of STREAM_EVENTS) {
    source.addEventListener(name, ({ data, lastEventId }: MessageEvent<string>) => {
      onEvent({ event: name, id: lastEventId, data });
    });
  }
  return () => {
    source.close();
  };
};

export const afterTimeout: After = (ms, callback) => {
  const timer = setTimeout(callback, ms);
  return () => {
    clearTimeout(timer);
  };
};
