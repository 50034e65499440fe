/**
 * Why a call to the platform failed. The message is a sentence for the reader that says what to do next.
 *
 * PlatformError
 *   UnreachableError   nothing answered: the outcome of the call is unknown
 *   RefusedError       the platform answered with an error status
 */
export class PlatformError extends Error {}

export class UnreachableError extends PlatformError {
  constructor() {
    super('The platform cannot be reached. Check that it is running with `molecule status`, then try again.');
  }
}

export class RefusedError extends PlatformError {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, sentence: string) {
    super(sentence === '' ? `The platform answered with status ${status}. Try again in a moment.` : sentence);
    this.status = status;
    this.code = code;
  }
}

export function isUnauthenticated(error: unknown): boolean {
  return error instanceof RefusedError && error.status === 401;
}

/** A sentence for the reader; what is not ours is not shown. */
export function sentenceOf(error: unknown): string {
  return error instanceof PlatformError ? error.message : 'Something went wrong on this page. Reload it and try again.';
}
