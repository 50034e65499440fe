import { list, object, text } from '@/engine/json';
import type { JsonObject } from '@/engine/json';
import { oneLine, shortened } from '@/engine/words';

export interface Skill {
  readonly name: string;
  readonly description: string;
}

/** What an agent says of itself, as the platform tells it to others (A2A 1.0). Everything in it is cut to a size. */
export interface Card {
  readonly name: string;
  readonly description: string;
  readonly version: string;
  readonly provider: string;
  readonly documentationUrl: string | null;
  readonly skills: readonly Skill[];
  /** How many skills the card has beyond those. */
  readonly moreSkills: number;
  /** Protocol bindings and their versions, the preferred one first. */
  readonly bindings: readonly string[];
  readonly capabilities: readonly string[];
  readonly takes: readonly string[];
  readonly gives: readonly string[];
  /** Where an A2A client reaches it. */
  readonly url: string;
}

const MOST_SKILLS = 40;
const MOST_LISTED = 12;
const LABEL = 120;
const SENTENCES = 1_000;

const CAPABILITIES: Readonly<Record<string, string>> = {
  streaming: 'streaming',
  pushNotifications: 'push notifications',
  extendedAgentCard: 'extended card',
};

const label = (value: unknown): string => oneLine(text(value), LABEL);

function labels(values: readonly unknown[]): string[] {
  const said = values.map(label).filter((value) => value !== '');
  return [...new Set(said)].slice(0, MOST_LISTED);
}

function readSkill(given: unknown): Skill {
  const skill = object(given);
  const name = label(skill.name) || label(skill.id);
  const description = shortened(text(skill.description).trim(), SENTENCES);
  return { name, description: description === name ? '' : description };
}

function readCapabilities(given: JsonObject): string[] {
  const offered = Object.entries(CAPABILITIES).flatMap(([member, word]) => (given[member] === true ? [word] : []));
  return [...offered, ...labels(list(given.extensions).map((extension) => object(extension).uri))];
}

/** An address that a link may lead to: a card must not bring a script. */
function webAddress(given: unknown): string | null {
  const address = text(given);
  return /^https?:\/\//i.test(address) && URL.canParse(address) ? address : null;
}

/** Reads a card of any content; what is missing or of another type is empty. */
export function readCard(body: unknown): Card {
  const card = object(body);
  const name = label(card.name);
  const description = shortened(text(card.description).trim(), SENTENCES);
  const skills = list(card.skills).map(readSkill).filter((skill) => skill.name !== '');
  const ways = list(card.supportedInterfaces).map(object);
  return {
    name,
    description: description === name ? '' : description,
    version: label(card.version),
    provider: label(object(card.provider).organization),
    documentationUrl: webAddress(card.documentationUrl),
    skills: skills.slice(0, MOST_SKILLS),
    moreSkills: Math.max(0, skills.length - MOST_SKILLS),
    bindings: labels(ways.map((way) => `${text(way.protocolBinding)} ${text(way.protocolVersion)}`)),
    capabilities: readCapabilities(object(card.capabilities)),
    takes: labels(list(card.defaultInputModes)),
    gives: labels(list(card.defaultOutputModes)),
    url: label(ways.map((way) => way.url).find((url) => text(url) !== '')),
  };
}
