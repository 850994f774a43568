// Package live is what the live worlds of Norn have in common: what a scheduler does that
// decides for real processes, whatever these are and however they are started.
//
// Nouns: a Loop collects what happens into instants, each of which is decided, made
// durable, acted upon and answered, in this order; a lane keeps the acts for one job in
// order; a World is where jobs run, and a Daemon all that any such world has; a run is one launch of a job; an ending is all that is known of a run that has
// ended, and a verdict what follows from it for the job; an epoch is one event log,
// which begins with what was left of the one before; a Journal is the folder of these.
//
// Units: times since the origin of the log as time.Duration; GPUs in thousandths.
package live
