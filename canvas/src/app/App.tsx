import { useCallback, useEffect, useState } from 'react';
import type { ReactNode } from 'react';

import { afterTimeout, openWebSocket } from '@/app/browser';
import { startLive } from '@/app/live';
import { readRoute } from '@/app/route';
import { Header } from '@/components/Header';
import { Notice } from '@/components/Notice';
import { SignIn, SignedOut } from '@/components/SignIn';
import { Workbench } from '@/components/Workbench';
import type { Session } from '@/engine/api';
import { sentenceOf } from '@/engine/errors';
import { usePlatform, useSession } from '@/store/platform';

export function App(): ReactNode {
  const [route, setRoute] = useState(() => readRoute(window.location));
  const goHome = useCallback(() => {
    // Replaced and not pushed: going back must not bring up a used code.
    window.history.replaceState(null, '', '/');
    setRoute({ kind: 'home' });
  }, []);
  return route.kind === 'login' ? <SignIn code={route.code} onDone={goHome} /> : <Home />;
}

function Home(): ReactNode {
  const { data: session, error, retry } = useSession();
  if (session === null) return <SignedOut />;
  if (session !== undefined) return <SignedIn session={session} />;
  if (error === null) return <Notice title="Loading…" />;
  return (
    <Notice title="The platform does not answer" urgent>
      <p>{sentenceOf(error)}</p>
      <button type="button" className="button button-main" onClick={retry}>
        Try again
      </button>
    </Notice>
  );
}

function SignedIn({ session }: { readonly session: Session }): ReactNode {
  const platform = usePlatform();
  useEffect(() => startLive(platform, openWebSocket, afterTimeout), [platform]);
  return (
    <div className="page">
      <Header session={session} />
      <main>
        <Workbench />
      </main>
    </div>
  );
}
