package jobfile

import (
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/api"
)

// InOrder is the order in which jobs are to be submitted that are submitted together: those
// for which a job waits by their names before it, and else as they come. It is an error when
// a name is none of theirs, or when jobs wait for each other. A number means a job that was
// submitted before, and so does a name with its namespace, as in team-a/bert.
func InOrder(specs []api.JobSpec) ([]int, error) {
	o := ordering{specs: specs, named: map[string][]int{}, begun: make([]bool, len(specs)), done: make([]bool, len(specs))}
	for i := range specs {
		o.named[specs[i].Name] = append(o.named[specs[i].Name], i)
	}
	for i := range specs {
		if err := o.visit(i); err != nil {
			return nil, err
		}
	}
	return o.order, nil
}

// ordering is a search through the jobs for which others wait.
type ordering struct {
	specs       []api.JobSpec
	named       map[string][]int
	begun, done []bool
	way         []int // jobs of which each waits for the next
	order       []int
}

func (o *ordering) visit(i int) error {
	o.way = append(o.way, i)
	defer func() { o.way = o.way[:len(o.way)-1] }()
	if o.begun[i] && !o.done[i] {
		return o.circle(i)
	}
	if o.begun[i] {
		return nil
	}
	o.begun[i] = true
	for _, a := range o.specs[i].After {
		if !isName(a.Job) {
			continue
		}
		if len(o.named[a.Job]) == 0 {
			return fmt.Errorf("job %s waits for %q: that is no number, and none of the jobs that are submitted with it has this name", o.specs[i].Name, a.Job)
		}
		for _, before := range o.named[a.Job] {
			if err := o.visit(before); err != nil {
				return err
			}
		}
	}
	o.done[i] = true
	o.order = append(o.order, i)
	return nil
}

// circle says which jobs wait for each other, up to one to which the way has come back.
func (o *ordering) circle(to int) error {
	var names []string
	for k := len(o.way) - 2; k >= 0; k-- {
		names = append([]string{o.specs[o.way[k]].Name}, names...)
		if o.way[k] == to {
			break
		}
	}
	if len(names) == 1 {
		return fmt.Errorf("job %s waits for itself", names[0])
	}
	return fmt.Errorf("jobs wait for each other, and none could start: %s waits for %s", strings.Join(names, " waits for "), names[0])
}

// isName tells whether a job is meant that is submitted together with who waits for it.
func isName(job string) bool {
	return strings.Trim(job, "0123456789_") != "" && !strings.Contains(job, "/") && job != api.Singleton
}

// Numbered is what a job waits for, with the numbers of jobs in place of the names that they
// were submitted under. Of several with one name it waits for all.
func Numbered(after []api.After, numbers map[string][]string) []api.After {
	var out []api.After
	for _, a := range after {
		if !isName(a.Job) {
			out = append(out, a)
			continue
		}
		for _, number := range numbers[a.Job] {
			one := a
			one.Job = number
			out = append(out, one)
		}
	}
	return out
}
