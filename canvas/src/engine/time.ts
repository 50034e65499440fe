const MOMENT: Intl.DateTimeFormatOptions = { dateStyle: 'medium', timeStyle: 'medium' };
const CLOCK: Intl.DateTimeFormatOptions = { timeStyle: 'short' };
const DAY_AND_CLOCK: Intl.DateTimeFormatOptions = { dateStyle: 'medium', timeStyle: 'short' };

/** Whose calendar and clock to use; without a zone, that of the machine. */
export interface Reader {
  readonly locale?: string;
  readonly timeZone?: string;
}

function shown(moment: Date, options: Intl.DateTimeFormatOptions, reader: Reader): string {
  const zone = reader.timeZone === undefined ? {} : { timeZone: reader.timeZone };
  return new Intl.DateTimeFormat(reader.locale, { ...options, ...zone }).format(moment);
}

/** Date and time to the second, in the reader's zone; null for what is not a time. */
export function showMoment(timestamp: string | null, reader: Reader = {}): string | null {
  const moment = new Date(timestamp ?? Number.NaN);
  return Number.isNaN(moment.getTime()) ? null : shown(moment, MOMENT, reader);
}

/** The clock alone for today, with the date for other days. */
export function showClock(timestamp: string, now: Date, reader: Reader = {}): string {
  const moment = new Date(timestamp);
  if (Number.isNaN(moment.getTime())) return '';
  const day = (date: Date): string => shown(date, { dateStyle: 'short' }, reader);
  return shown(moment, day(moment) === day(now) ? CLOCK : DAY_AND_CLOCK, reader);
}
