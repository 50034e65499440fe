import { useEffect } from 'react';
import type { ReactNode } from 'react';

import type { Theme } from '@/store/canvas';
import { useCanvas } from '@/store/platform';

const NEXT: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' };
const LABEL: Readonly<Record<Theme, string>> = { system: 'Auto', light: 'Light', dark: 'Dark' };

/** Follows the system until the reader says otherwise. */
export function ThemeToggle(): ReactNode {
  const theme = useCanvas((state) => state.theme);
  const setTheme = useCanvas((state) => state.setTheme);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  return (
    <button
      type="button"
      className="button button-quiet"
      data-testid="theme"
      aria-label={`Theme: ${LABEL[theme]}. Switch to ${LABEL[NEXT[theme]]}.`}
      onClick={() => {
        setTheme(NEXT[theme]);
      }}
    >
      <span aria-hidden="true">◐</span> {LABEL[theme]}
    </button>
  );
}
