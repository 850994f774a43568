package gen

import (
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace/gen/internal/quant"
)

// Like names the real log that a generated trace resembles.
type Like uint8

// The logs that are imitated. docs/generators.md says how near each comes.
const (
	Philly Like = iota // Microsoft Philly, 2017
	Venus              // SenseTime Helios, cluster Venus, 2020
	ITP                // Microsoft ITP, ten clusters together, 2021
	PAI                // Alibaba PAI, 2020
	Pollux             // the workloads of the Pollux paper
	likes
)

var profiles = [likes]*profile{&philly, &venus, &itp, &pai, &pollux}

func (l Like) String() string { return profiles[l].name }

// ParseLike reads the name of a log. The error lists the known ones.
func ParseLike(s string) (Like, error) {
	names := make([]string, likes)
	for l := range likes {
		if names[l] = l.String(); strings.EqualFold(names[l], s) {
			return l, nil
		}
	}
	return 0, fmt.Errorf("no generator is like %q: write one of %s", s, strings.Join(names, ", "))
}

// profile is a source in figures. All shares in one list add up to one, but for
// rounding.
type profile struct {
	name   string
	gpus   float64   // of the cluster that the source ran on
	perDay float64   // jobs submitted on an average day
	hours  []float64 // relative rate of submission by hour, from midnight
	days   []float64 // the same by day, from Monday

	sizes     []size
	groups    []group
	fractions []fraction // of one GPU that a task asks for; none: whole GPUs
	sessions  sessions
	users     []rank // how much the most active users submit
	tenants   []share
	recurs    float64 // share of sessions that repeat an earlier name
	keyed     bool    // tells the group of recurring jobs that a job belongs to
}

// size is a gang size.
type size struct {
	gpus  int
	share float64 // of jobs
	group int     // of sizes with run times in common
	model string
	batch int
}

// group is a range of sizes whose jobs have run times and ends in common.
type group struct {
	cells []cell
	cpus  []cpus // for each GPU; none: not told
}

// cell is the jobs of a group that passed, or failed, at once or after a retry.
type cell struct {
	share   float64 // of the jobs of the group
	retries []retry // empty: one attempt
	ends    []end   // by equal parts of the run times, shortest first
	run     quant.Table
}

// retry says how often, and in which parts, jobs with several attempts run.
type retry struct {
	attempts int
	share    float64
	last     [9]float64 // quantiles (eighths) of the last attempt's part of the run time
}

// end is the shares of jobs that pass, fail and are killed.
type end [3]float64

// cpus is an amount of CPU for each GPU.
type cpus struct {
	cpu   unit.Milli
	share float64
}

// fraction is the part of a GPU that a task asks for, with its CPU and memory.
type fraction struct {
	gpu    unit.Milli
	cpu    unit.Milli
	memory unit.Bytes
	share  float64
}

// sessions says how jobs come in rows of similar ones from one user.
type sessions struct {
	length      float64    // mean number of jobs
	correlation float64    // of the normal scores of their run times
	alike       float64    // share whose cell is that of the first one, drawn apart otherwise
	gaps        [9]float64 // quantiles (eighths) of the time between them, seconds
}

// rank says what share of all jobs comes from so many of the most active users.
type rank struct {
	users int
	share float64
}

// share is a named part of a whole.
type share struct {
	name string
	part float64
}
