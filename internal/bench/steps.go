package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/coverage"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The sizes at which steps are counted: one twice the other.
var (
	onceCrowd  = crowd{60, 100}
	twiceCrowd = crowd{120, 200}
)

// steps counts the statements of this program that policies carry out in a decision, by
// the counters of a build with -cover -covermode=atomic: nothing depends on the machine
// or on what else runs there. Of twice as many jobs on twice as many GPUs a decision takes
// about twice as many when the policy looks at each of them once, and four times as many
// when it looks at all pairs.
func steps(w io.Writer, only string) error {
	for _, q := range questions() {
		if !among(q.policy, only) {
			continue
		}
		once, err := q.steps(onceCrowd)
		if err != nil {
			return err
		}
		twice, err := q.steps(twiceCrowd)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.2f\n", q.policy, once, twice, twice/once)
	}
	return nil
}

// among tells whether the policy is one of a list with commas between; an empty one has
// all.
func among(policy, only string) bool {
	name, _, _ := strings.Cut(policy, "(")
	return only == "" || slices.Contains(strings.Split(only, ","), name)
}

// watched is how many decisions are counted for each job of the crowd: those while it is
// there. Each job comes and ends, and the policies that decide in rounds wake up more often.
const watched = 5

// steps is the mean number of statements of a decision.
func (q *question) steps(c crowd) (float64, error) {
	if err := coverage.ClearCounters(); err != nil {
		return 0, fmt.Errorf("build with -cover -covermode=atomic: %w", err)
	}
	calls := int64(0)
	count := func() int64 { calls++; return calls } // a decision costs one more
	a, err := q.ask(c, count, int64(watched*c.jobs))
	if err != nil {
		return 0, err
	}
	sum, err := counted()
	return float64(sum) / float64(1+len(a.later)), err
}

// covdata is the path of Go's tool of that name. To run it by go takes three times as long.
var covdata = sync.OnceValues(func() (string, error) {
	path, err := exec.Command("go", "tool", "-n", "covdata").Output()
	if err != nil {
		return "", fmt.Errorf("go tool -n covdata: %w", err)
	}
	return strings.TrimSpace(string(path)), nil
})

// counted is the number of statements that were carried out since the counters were
// cleared.
func counted() (sum int, err error) {
	dir, err := os.MkdirTemp("", "norn-steps")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := coverage.WriteMetaDir(dir); err != nil {
		return 0, err
	}
	if err := coverage.WriteCountersDir(dir); err != nil {
		return 0, err
	}
	list := filepath.Join(dir, "list")
	tool, err := covdata()
	if err != nil {
		return 0, err
	}
	if out, err := exec.Command(tool, "textfmt", "-i="+dir, "-o="+list).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go tool covdata: %w\n%s", err, out)
	}
	file, err := os.Open(list)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() { // place in a file, statements there, how often
		if f := strings.Fields(lines.Text()); len(f) == 3 {
			statements, _ := strconv.Atoi(f[1]) // as the tool wrote them
			times, _ := strconv.Atoi(f[2])
			sum += statements * times
		}
	}
	return sum, lines.Err()
}
