// Package live is what the live worlds of Norn have in common: what a scheduler does that
// decides for real processes, whatever these are and however they are started.
//
// Nouns:
//   - A Loop collects events into instants. Each is decided, made durable,
//     acted upon and answered, in this order.
//   - A lane keeps the acts for one job in order.
//   - A World is where jobs run, and a Daemon is all that every such world
//     shares.
//   - A run is one launch of a job.
//   - An ending is all that is known of a run that has ended, and a verdict
//     what follows from it for the job.
//   - An epoch is one event log, which begins with the jobs that were left of
//     the one before.
//   - A Journal is the folder of these logs.
//
// Units: times since the origin of the log as time.Duration; GPUs in thousandths.
package live
