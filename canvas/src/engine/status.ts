/** What a workspace status is called and how it feels: the tone chooses the colour, the word carries the meaning. */
export type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'off';

export interface StatusLook {
  readonly label: string;
  readonly tone: Tone;
}

const LOOKS: Readonly<Record<string, StatusLook>> = {
  online: { label: 'online', tone: 'good' },
  provisioning: { label: 'starting', tone: 'busy' },
  awaiting_agent: { label: 'waiting for agent', tone: 'busy' },
  degraded: { label: 'degraded', tone: 'warn' },
  offline: { label: 'offline', tone: 'off' },
  paused: { label: 'paused', tone: 'off' },
  hibernating: { label: 'falling asleep', tone: 'off' },
  hibernated: { label: 'asleep', tone: 'off' },
  failed: { label: 'failed', tone: 'bad' },
  removed: { label: 'removed', tone: 'off' },
};

export function lookOf(status: string): StatusLook {
  return LOOKS[status] ?? { label: status === '' ? 'unknown' : status, tone: 'off' };
}
