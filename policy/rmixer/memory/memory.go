// Package memory has the recommendation models of the authors of RMixer: the shapes of
// their layers, their use of a GPU, and the peak memory that was measured of them.
//
// Nouns:
//   - A family (Click, Sequence) makes shapes (job.Shape) from the hyperparameters in
//     which models are described.
//   - A Model is one of the models of the authors.
//   - A Profile is what they measured of it.
//
// Units: bytes; numbers are 4-byte floats, ids 4-byte integers. MB in the source are MiB.
// The formulas by which a shape becomes memory are those of perf.PeakOf.
//
// Source: Tian et al., "Sophisticated Orchestrating Concurrent DLRM Training on
// CPU/GPU Platform", IEEE TPDS 35(11), 2024 (RMixer), after the authors' code (MIT).
package memory
