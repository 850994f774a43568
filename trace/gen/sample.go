package gen

import "time"

// SampleCluster is the cluster that Sample is meant for, as a user would write
// it: eight nodes of eight GPUs.
const SampleCluster = "8x8"

// SampleOptions says what Sample is: like Philly, scaled to a small cluster by
// leaving out the longest jobs, and busy enough that jobs wait.
func SampleOptions() Options {
	return Options{
		Like: Philly, Jobs: 1500, Seed: 17, GPUs: 64, Load: 0.95,
		MaxGPUs: 32, MaxRun: 24 * time.Hour, Tenants: 5,
	}
}

// Sample is the small trace that comes with the program. It is generated, and
// the same every time. It fails only if SampleOptions is wrong.
func Sample() (*Generator, error) { return New(SampleOptions()) }
