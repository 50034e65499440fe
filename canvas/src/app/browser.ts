import type { After } from '@/engine/coalesce';
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

export const afterTimeout: After = (ms, callback) => {
  const timer = setTimeout(callback, ms);
  return () => {
    clearTimeout(timer);
  };
};
