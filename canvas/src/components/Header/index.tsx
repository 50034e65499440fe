import { useMutation } from '@tanstack/react-query';
import type { ReactNode } from 'react';

import { signOut } from '@/commands/signOut';
import { ConnectionPill } from '@/components/ConnectionPill';
import { ThemeToggle } from '@/components/ThemeToggle';
import type { Session } from '@/engine/api';
import { sentenceOf } from '@/engine/errors';
import { usePlatform } from '@/store/platform';

import icon from './icon.svg';
import './style.css';

export function Header({ session }: { readonly session: Session }): ReactNode {
  const platform = usePlatform();
  const leaving = useMutation({ mutationFn: () => signOut(platform) });
  return (
    <header className="header">
      <span className="header-product">
        <img src={icon} alt="" width={22} height={22} />
        Molecule
      </span>
      <span className="header-org" title={`Organisation ${session.orgId}`}>
        {session.orgName}
      </span>
      <ConnectionPill />
      <span className="header-space" />
      {leaving.isError && (
        <span className="header-error" role="alert">
          {sentenceOf(leaving.error)}
        </span>
      )}
      <span className="header-user" title={session.role}>
        {session.user}
      </span>
      <ThemeToggle />
      <button
        type="button"
        className="button button-quiet"
        data-testid="sign-out"
        disabled={leaving.isPending}
        onClick={() => {
          leaving.mutate();
        }}
      >
        Sign out
      </button>
    </header>
  );
}
