// Package live is what the live worlds of Norn have in common: what a scheduler does that
// decides for real processes, whatever these are and however they are started.
//
// Nouns: a run is one launch of a job; an ending is all that is known of a run that
// has ended, and a verdict what follows from it for the job.
//
// Units: times since the origin of the log as time.Duration; GPUs in thousandths.
package live
