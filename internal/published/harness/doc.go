// Package harness is what the published simulators have in common: their files,
// and the way their runs go through Norn.
//
// Nouns:
//   - A Table is a CSV file with a header line.
//   - A Setup is a run: cluster, policy, jobs, world.
//   - A Clock is a world in which jobs end when the published code says so.
//   - A Result is what a simulator prints when it is done.
//   - A Row is the part of it for one job that finished.
//
// Units: seconds in Rows, as the simulators print them; time.Duration inside
// the engine. Both count from the simulator's own origin, which need not be the
// first submission.
//
// The published simulators are read by their own rules, with their conversions
// and defaults; the readers of package trace follow other ones.
package harness
