import { QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';

import { App } from '@/app/App';
import { assemble } from '@/app/platform';
import { PlatformContext } from '@/store/platform';

import '@/app/base.css';

const { client, platform } = assemble();
const root = document.getElementById('root');
if (root === null) throw new Error('index.html must hold an element with the id "root".');

// Before the first paint, so that the page does not flash in the other theme.
document.documentElement.dataset.theme = platform.canvas.getState().theme;

createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <PlatformContext value={platform}>
        <App />
      </PlatformContext>
    </QueryClientProvider>
  </StrictMode>,
);
