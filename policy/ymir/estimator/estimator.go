// Package estimator is how Ymir foretells the length of fine-tuning jobs, alone and
// merged.
//
// Nouns:
//   - A Curve is how the loss of a job falls, where the loss is divided by its
//     largest value.
//   - k counts profiling steps, of whatever length.
//   - K is the step at which the loss has stopped to fall, so that the job is
//     done.
//   - The gain G of a task is how much more accurate it becomes, relatively,
//     when it is trained from, or with, another one.
//   - The similarity S of two tasks foretells the gain.
//   - A Believer learns all that from measurements.
//
// Source: "Ymir: A Scheduler for Foundation Model Fine-tuning Workloads in
// Datacenters", ICS 2024, section 4; similarity: Achille et al., "Task2Vec: Task
// Embedding for Meta-Learning", ICCV 2019.
package estimator

import "github.com/norn-scheduler/norn/perf/predict/loss"

// Curve and Sample are those of package loss, which fits them.
type (
	Curve  = loss.Curve
	Sample = loss.Sample
)
