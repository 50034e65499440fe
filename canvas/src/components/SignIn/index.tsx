import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { ReactNode } from 'react';

import { Notice, TypeThis } from '@/components/Notice';
import { isUnauthenticated, sentenceOf } from '@/engine/errors';
import { usePlatform } from '@/store/platform';

interface Props {
  readonly code: string;
  readonly onDone: () => void;
}

/** Exchanges the one-time code. A query and not an effect, because a code that is sent twice is refused. */
export function SignIn({ code, onDone }: Props): ReactNode {
  const { api } = usePlatform();
  const { isSuccess, error, refetch } = useQuery({
    queryKey: ['login', code],
    queryFn: () => api.login(code).then(() => true),
    retry: false,
    staleTime: Infinity,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
  useEffect(() => {
    if (isSuccess) onDone();
  }, [isSuccess, onDone]);

  if (error === null) return <Notice title="Signing in…" />;
  if (isUnauthenticated(error)) return <UsedLink />;
  return (
    <Notice title="Signing in did not work" urgent>
      <p>{sentenceOf(error)}</p>
      <button type="button" className="button button-main" onClick={() => void refetch()}>
        Try again
      </button>
    </Notice>
  );
}

function UsedLink(): ReactNode {
  return (
    <Notice title="This sign-in link no longer works" urgent>
      <p>A link works once and for a short time only. Get a fresh one where the platform runs, and open it:</p>
      <TypeThis command="molecule login-url" />
      <p>
        Already signed in? <a href="/">Go to the canvas</a>.
      </p>
    </Notice>
  );
}

/** What `/` shows to a browser without a session. */
export function SignedOut(): ReactNode {
  return (
    <Notice title="Sign in to Molecule">
      <p>You sign in with a one-time link. Get one where the platform runs, and open it in this browser:</p>
      <TypeThis command="molecule login-url" />
    </Notice>
  );
}
