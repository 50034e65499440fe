import js from '@eslint/js';
import reactHooks from 'eslint-plugin-react-hooks';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

const FRAMEWORKS = ['react', 'react/*', 'react-dom', 'react-dom/*', '@xyflow/*', 'zustand', 'zustand/*', '@tanstack/*'];
const PARENT_IMPORTS = { group: ['../*'], message: 'Import by the absolute name: @/room/module.' };

// One wall per room: what it may not see, and why. Rooms from the inside out: engine, store, commands, components, app.
const wall = (room, hidden, message) => ({
  files: [`src/${room}/**/*.{ts,tsx}`],
  rules: {
    'no-restricted-imports': ['error', { patterns: [PARENT_IMPORTS, { group: hidden, message }] }],
  },
});

export default defineConfig(
  { ignores: ['node_modules'] },
  js.configs.recommended,
  tseslint.configs.strictTypeChecked,
  tseslint.configs.stylisticTypeChecked,
  reactHooks.configs.flat['recommended-latest'],
  {
    languageOptions: { parserOptions: { projectService: { allowDefaultProject: ['eslint.config.js'] }, tsconfigRootDir: import.meta.dirname } },
    rules: {
      complexity: ['error', 10],
      eqeqeq: 'error',
      'max-lines': ['error', 400],
      'max-depth': ['error', 3],
      'no-console': 'error',
      'no-eval': 'error',
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
    },
  },
  wall('engine', [...FRAMEWORKS, '@/store/*', '@/commands/*', '@/components/*', '@/app/*'], 'The engine knows no framework and no other room.'),
  wall('store', ['react-dom', 'react-dom/*', '@xyflow/*', '@/commands/*', '@/components/*', '@/app/*'], 'The store holds state; it rests on the engine alone.'),
  wall('commands', [...FRAMEWORKS, '@/components/*', '@/app/*'], 'A command is plain code on the engine and the store.'),
  wall('components', ['@/app/*'], 'Components are given what they show; the app puts them together.'),
  {
    // The network has one door.
    files: ['src/{store,commands,components}/**/*.{ts,tsx}'],
    rules: { 'no-restricted-globals': ['error', 'fetch', 'WebSocket', 'XMLHttpRequest', 'EventSource'] },
  },
  // A test of the commands puts together the real parts, as the app does.
  { files: ['src/commands/*.test.ts'], rules: { 'no-restricted-imports': 'off' } },
  { files: ['src/**/*.test.ts'], rules: { '@typescript-eslint/explicit-module-boundary-types': 'off', 'max-lines': ['error', 800] } },
  { files: ['eslint.config.js'], extends: [tseslint.configs.disableTypeChecked], rules: { '@typescript-eslint/explicit-module-boundary-types': 'off' } },
);
