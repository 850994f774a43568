//go:build linux

// Soak runs a real Norn for a while, and does to it all that goes wrong. It kills the
// daemon, the runners of jobs, and both, also while they start. It fills the disk. It
// flips bits in the files of the state folder. Meanwhile clients submit, hold, release,
// cancel and ask, and a hostile one sends what nobody should. In the end it compares what
// happened with what was promised.
//
// It knows nothing of Norn's code, and uses none of it: it runs the program, speaks HTTP
// over its socket, and believes what the jobs themselves have written down.
//
// Nouns: a stage is a Norn under one policy with a state folder of its own. The truth is
// the folder in which jobs write down when they run. A client acts on the Norn as users
// do. The chaos is what is done to it. A breach is a promise that was not kept.
//
// Promises that are checked:
//   - a job whose submission was answered is never lost, keeps its number and its name, and
//     ends; no number is given twice
//   - a job never runs twice at once, and no two jobs run on one slot at once
//   - a job that is done has done its work to the end
//   - a job whose cancellation was answered does not start any more
//   - a job that was submitted with a hold does not start before it is released
//   - the daemon never ends by itself while there is room on the disk, and never answers 500
//   - after a bit was flipped the daemon starts, and each job is there as it was, or
//     norn fsck has told of damage
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	span := flag.Duration("for", 10*time.Minute, "how long to go on, all stages together")
	program := flag.String("norn", "", "the program (default: it is built from this module)")
	policies := flag.String("policies", "fifo(mode=easy);srtf;tiresias(limits=1,4)", "a stage for each, separated by semicolons")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of all that is drawn")
	flips := flag.Int("flips", 12, "bits flipped at the end of each stage")
	flag.Parse()
	if err := run(*program, strings.Split(*policies, ";"), *span, *seed, *flips); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(program string, policies []string, span time.Duration, seed uint64, flips int) error {
	dir, err := os.MkdirTemp("", "norn-soak-")
	if err != nil {
		return err
	}
	if program == "" {
		program = filepath.Join(dir, "norn")
		if out, err := exec.Command("go", "build", "-o", program, "./cmd/norn").CombinedOutput(); err != nil {
			return fmt.Errorf("go build ./cmd/norn: %w\n%s", err, out)
		}
	}
	fmt.Printf("seed %d, files in %s\n", seed, dir)
	var breaches []string
	for i, policy := range policies {
		s, err := newStage(program, filepath.Join(dir, fmt.Sprint("stage", i+1)), policy, rand.New(rand.NewPCG(seed, uint64(i))))
		if err != nil {
			return err
		}
		err = s.play(span/time.Duration(len(policies)), flips)
		s.end()
		if err != nil {
			return fmt.Errorf("%s: %w", policy, err)
		}
		fmt.Println(s.summary())
		for _, b := range s.breaches {
			breaches = append(breaches, policy+": "+b)
		}
	}
	if len(breaches) > 0 {
		return fmt.Errorf("%d promises were not kept (seed %d, files in %s):\n%s", len(breaches), seed, dir, strings.Join(breaches, "\n"))
	}
	fmt.Println("every promise was kept")
	return os.RemoveAll(dir)
}
