/** Where in the canvas the address points. */
export type Route = { readonly kind: 'home' } | { readonly kind: 'login'; readonly code: string };

export function readRoute({ pathname, search }: Pick<Location, 'pathname' | 'search'>): Route {
  if (pathname.replace(/\/$/, '') !== '/auth/login') return { kind: 'home' };
  return { kind: 'login', code: new URLSearchParams(search).get('code') ?? '' };
}
