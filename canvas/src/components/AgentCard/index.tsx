import type { ReactNode } from 'react';

import { Facts } from '@/components/Facts';
import type { Card, Skill } from '@/engine/card';
import { sentenceOf } from '@/engine/errors';
import { counted } from '@/engine/words';
import type { Workspace } from '@/engine/workspaces';
import { useCard } from '@/store/platform';
import JOIN_PROGRAM from '@demo/hello.py?raw';

import './style.css';

/** Who the agent says it is. All of it is the agent's word, and shown as text. */
export function AgentCard({ workspace }: { readonly workspace: Workspace }): ReactNode {
  const { data: card, error, retry } = useCard(workspace);
  return (
    <section className="agent-card" data-testid="card" aria-label={`Card of ${workspace.name}`}>
      <CardFace workspace={workspace} card={card} error={error} onRetry={retry} />
    </section>
  );
}

interface FaceProps {
  readonly workspace: Workspace;
  readonly card: Card | undefined;
  readonly error: Error | null;
  readonly onRetry: () => void;
}

function CardFace({ workspace, card, error, onRetry }: FaceProps): ReactNode {
  if (!workspace.hasCard) return <NoCard workspace={workspace} />;
  if (card !== undefined) return <ShownCard card={card} agentId={workspace.id} />;
  if (error === null) return <p className="agent-card-hint">Loading the card…</p>;
  return (
    <div className="agent-card-trouble" role="alert">
      <p>{sentenceOf(error)}</p>
      <button type="button" className="button" onClick={onRetry}>
        Load the card again
      </button>
    </div>
  );
}

function NoCard({ workspace: { id, external } }: { readonly workspace: Workspace }): ReactNode {
  if (!external) return <p className="agent-card-hint">No card yet. The agent brings it when it starts.</p>;
  return (
    <>
      <p className="agent-card-hint">
        No agent has joined yet. This is one; it reads the connection that <code>molecule workspace create</code> gave. If that is lost,{' '}
        <code>molecule workspace enrol {id}</code> helps.
      </p>
      <pre className="agent-card-command">
        <code>{JOIN_PROGRAM}</code>
      </pre>
    </>
  );
}

function ShownCard({ card, agentId }: { readonly card: Card; readonly agentId: string }): ReactNode {
  return (
    <>
      <p className="agent-card-name">
        <bdi>{card.name}</bdi> <span className="agent-card-version">{card.version}</span>
      </p>
      {card.description !== '' && (
        <p className="agent-card-description">
          <bdi>{card.description}</bdi>
        </p>
      )}
      <details className="agent-card-more">
        <summary className="agent-card-summary">{summaryOf(card)}</summary>
        <SkillList skills={card.skills} />
        {card.moreSkills > 0 && <p className="agent-card-hint">… and {counted(card.moreSkills, 'skill')} more.</p>}
        <CardFacts card={card} />
        <a href={`/agents/${encodeURIComponent(agentId)}/.well-known/agent-card.json`} target="_blank" rel="noreferrer">
          The whole card as JSON
        </a>
      </details>
    </>
  );
}

function summaryOf({ skills, moreSkills }: Card): string {
  const names = skills.map(({ name }) => name).join(', ');
  return `${counted(skills.length + moreSkills, 'skill')}: ${names}`;
}

function SkillList({ skills }: { readonly skills: readonly Skill[] }): ReactNode {
  return (
    <ul className="agent-card-skills">
      {skills.map(({ name, description }, place) => (
        // Nothing else tells two skills apart for sure: a card may repeat names and ids.
        <li key={place}>
          <bdi className="agent-card-skill">{name}</bdi>
          {description !== '' && (
            <div className="agent-card-hint">
              <bdi>{description}</bdi>
            </div>
          )}
        </li>
      ))}
    </ul>
  );
}

function CardFacts({ card }: { readonly card: Card }): ReactNode {
  const documentation = card.documentationUrl !== null && (
    <a href={card.documentationUrl} target="_blank" rel="noopener noreferrer nofollow">
      {card.documentationUrl}
    </a>
  );
  return (
    <Facts
      facts={[
        { name: 'Speaks', value: card.bindings.join(', ') },
        { name: 'Offers', value: card.capabilities.join(', ') },
        { name: 'Takes', value: card.takes.join(', ') },
        { name: 'Gives', value: card.gives.join(', ') },
        { name: 'Made by', value: card.provider },
        { name: 'Manual', value: documentation || null },
        { name: 'Address', value: card.url === '' ? null : <code className="agent-card-address">{card.url}</code> },
      ]}
    />
  );
}
