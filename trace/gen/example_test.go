package gen_test

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// A trace like that of Philly for a cluster of 64 GPUs, nine tenths of which it
// keeps busy.
func ExampleNew() {
	g, err := gen.New(gen.Options{Like: gen.Philly, Jobs: 4, Seed: 1, GPUs: 64, Load: 0.9})
	if err != nil {
		fmt.Println(err)
		return
	}
	var e trace.Entry
	for g.Next(&e) == nil {
		fmt.Printf("%4ss %s of %s: %s for %s, %s\n", unit.FormatSeconds(e.Job.Submit), e.Job.Name, e.Job.User,
			e.Job.Demand, unit.Human(e.Truth.Total()), e.Truth.Outcome)
	}
	// Output:
	//    0s tts-7 of u049: 1 GPU for 33m11s, failed
	//   13s tts-7 of u049: 1 GPU for 15m58s, killed
	//   22s tts-7 of u049: 1 GPU for 1m30s, passed
	//   23s tts-7 of u049: 1 GPU for 11m6s, passed
}

// The sample that comes with the program.
func ExampleSample() {
	g, err := gen.Sample()
	if err != nil {
		fmt.Println(err)
		return
	}
	var e trace.Entry
	n := 0
	for g.Next(&e) == nil {
		n++
	}
	fmt.Printf("%d jobs over %s for a cluster %s\n", n, unit.Human(e.Job.Submit.Round(time.Hour)), gen.SampleCluster)
	// Output: 1500 jobs over 3d15h for a cluster 8x8
}

func ExampleParseLike() {
	_, err := gen.ParseLike("borg")
	fmt.Println(err)
	// Output: no generator is like "borg": write one of philly, venus, itp, pai, pollux
}
