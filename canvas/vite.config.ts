/// <reference types="vitest/config" />
import { fileURLToPath } from 'node:url';

import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

const PLATFORM = process.env.MOLECULE_PLATFORM_URL ?? 'http://127.0.0.1:8080';
const API_PATHS = ['/auth/session', '/auth/logout', '/workspaces', '/messages', '/agents', '/events'];

export default defineConfig({
  base: '/',
  plugins: [react()],
  // The program with which an agent joins stands in the platform's package, and is shown from there.
  resolve: { alias: { '@demo': here('../packages/platform/src/molecule_platform/demo'), '@': here('./src') } },
  build: {
    outDir: here('../packages/platform/src/molecule_platform/static'),
    emptyOutDir: true,
    assetsDir: 'assets',
    // A data: URL would be fine for images, but a script or font inlined by size would break the page's CSP.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // Libraries change less often than the page: a browser keeps them over an update.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'libraries', test: /node_modules/ }] } } },
  },
  server: {
    proxy: {
      ...Object.fromEntries(API_PATHS.map((path) => [path, { target: PLATFORM, changeOrigin: true }])),
      '/ws': { target: PLATFORM, ws: true, changeOrigin: true },
      '/auth/login': {
        target: PLATFORM,
        changeOrigin: true,
        bypass: (request) => (request.method === 'GET' ? '/index.html' : undefined),
      },
    },
  },
  test: { include: ['src/**/*.test.ts'], environment: 'node' },
});
