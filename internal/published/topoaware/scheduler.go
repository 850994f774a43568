package topoaware

import (
	"cmp"
	"math"
	"slices"
)

// period is the length of a step in seconds. Times are sums of it, as there.
const period = 1.1

// task is a job as the simulator knows it.
type task struct {
	id      int
	model   string
	size    string
	gpus    int
	arrival int64
	least   float64 // the utility that it asks for

	comes   float64 // the step with which it comes, seconds
	machine int
	has     []int // GPUs of its machine; nil: it has not started
	start   float64
	needs   float64 // its run time, as far as is known
	over    bool
}

// host is a machine.
type host struct {
	allocated [perMachine]bool
	running   dict
}

func (h *host) freeGPUs() (n int) {
	for _, taken := range h.allocated {
		if !taken {
			n++
		}
	}
	return n
}

// scheduler is the loop of the simulator.
type scheduler struct {
	policy  Policy
	profile *profile
	tasks   []task // by number
	groups  [][]int
	hosts   []host
	fresh   []int // queue1: new jobs
	again   []int // queue2: jobs that were looked at

	backwards func() bool // whether the sockets of the next copy of a machine are walked backwards; nil: none are

	now float64
}

// newScheduler groups the jobs by the moment at which they come.
func newScheduler(p Policy, w *workload, machines int) *scheduler {
	s := &scheduler{policy: p, profile: w.profile, tasks: w.tasks, hosts: make([]host, machines)}
	order := make([]int, len(s.tasks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.tasks[a].comes, s.tasks[b].comes) })
	for i, id := range order {
		if i == 0 || s.tasks[id].comes != s.tasks[order[i-1]].comes {
			s.groups = append(s.groups, nil)
		}
		s.groups[len(s.groups)-1] = append(s.groups[len(s.groups)-1], id)
	}
	return s
}

// step is an iteration: at most one group of jobs comes, jobs start, and jobs end. It returns those that started
// and those that ended.
func (s *scheduler) step(now float64) (started, ended []int) {
	s.now = now
	if len(s.groups) > 0 && s.tasks[s.groups[0][0]].comes <= now {
		s.fresh = append(s.fresh, s.groups[0]...)
		s.groups = s.groups[1:]
	}
	if len(s.fresh)+len(s.again) > 0 {
		started = s.start(s.policy.decide(s))
	}
	return started, s.update()
}

// busy tells whether the simulator goes on.
func (s *scheduler) busy() bool {
	return len(s.groups)+len(s.fresh)+len(s.again) > 0 || slices.ContainsFunc(s.hosts, func(h host) bool { return h.running.used > 0 })
}

// decision is what becomes of a job: its machine and GPUs; none: it goes to the second queue.
type decision struct {
	id, machine int
	gpus        []int
}

// start carries decisions out.
func (s *scheduler) start(all []decision) (started []int) {
	for _, d := range all {
		if d.gpus == nil {
			s.again = append(s.again, d.id)
			continue
		}
		t := &s.tasks[d.id]
		t.machine, t.has, t.start = d.machine, d.gpus, s.now
		h := &s.hosts[d.machine]
		h.running.put(d.id)
		for _, g := range d.gpus {
			h.allocated[g] = true
		}
		started = append(started, d.id)
	}
	return started
}

// update lets run times rise, and jobs end, machine by machine. Those that were looked at after a job that ends
// do not see it any more.
func (s *scheduler) update() (ended []int) {
	for m := range s.hosts {
		h := &s.hosts[m]
		for _, id := range h.running.keys() {
			t := &s.tasks[id]
			if t.needs = s.takes(t); t.needs > s.now-t.start {
				continue
			}
			t.over = true
			h.running.remove(id)
			for _, g := range t.has {
				h.allocated[g] = false
			}
			ended = append(ended, id)
		}
	}
	return ended
}

// takes is the run time of a job, which never falls.
func (s *scheduler) takes(t *task) float64 {
	across, uses := place(t.has)
	alone, beside := s.profile.alone(t, len(t.has), across), 0.0
	for _, id := range s.hosts[t.machine].running.keys() {
		if o := &s.tasks[id]; id != t.id && o.shares(uses) {
			beside = max(beside, s.profile.beside(t, len(t.has), o, o.gpus))
		}
	}
	if beside > alone && beside >= t.needs {
		return beside
	}
	return max(t.needs, alone)
}

// all takes the jobs of both queues, in order of arrival, and forgets the queues. Of jobs that come together the
// order is that of a dict.
func (s *scheduler) all() []int {
	var d dict
	for _, id := range append(s.again, s.fresh...) {
		d.put(id)
	}
	s.again, s.fresh = s.again[:0], s.fresh[:0]
	ids := d.keys()
	slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(s.tasks[a].arrival, s.tasks[b].arrival) })
	return ids
}

// greedy is what fcfs and bf have in common: jobs that fit what is free on the first machine are looked at, and
// each goes to the last machine that has room for it.
func (s *scheduler) greedy(strict bool, choose func(allocated *[perMachine]bool, gpus int) []int, spoils bool) []decision {
	ids := s.all()
	var looked []int
	if free := s.hosts[0].freeGPUs(); free > 0 {
		for _, id := range ids {
			if s.tasks[id].gpus <= free {
				looked = append(looked, id)
			} else if strict {
				break
			}
		}
	}
	slices.SortStableFunc(looked, func(a, b int) int { return cmp.Compare(s.tasks[b].arrival, s.tasks[a].arrival) })
	slices.Reverse(looked)
	now := slices.Clone(s.hosts)
	to := map[int]decision{}
	for _, id := range looked {
		d := decision{id: id}
		for m := range now {
			h := &now[m]
			if h.freeGPUs() < s.tasks[id].gpus {
				continue
			}
			d.machine, d.gpus = m, choose(&h.allocated, s.tasks[id].gpus)
			for _, g := range d.gpus {
				h.allocated[g] = h.allocated[g] || spoils
			}
		}
		if d.gpus == nil && strict {
			break
		}
		for _, g := range d.gpus {
			now[d.machine].allocated[g] = true
		}
		to[id] = d
	}
	slices.Reverse(ids)
	var out []decision
	for _, id := range ids {
		d, ok := to[id]
		if !ok {
			d = decision{id: id}
		}
		out = append(out, d)
	}
	return out
}

// fcfs takes the lowest numbers. It stops at the first job that does not fit.
func (s *scheduler) fcfs() []decision {
	return s.greedy(true, func(allocated *[perMachine]bool, gpus int) (out []int) {
		for g := 0; len(out) < gpus; g++ {
			if !allocated[g] {
				out = append(out, g)
			}
		}
		return out
	}, false)
}

// bestFit takes GPUs of the socket that has the fewest free ones, of equal ones the last. GPUs that it looks at on
// other machines are lost to jobs that are looked at later in the step.
func (s *scheduler) bestFit() []decision {
	return s.greedy(false, func(allocated *[perMachine]bool, gpus int) (out []int) {
		left := *allocated
		for range 2 {
			from, fewest := -1, math.MaxInt
			for socket := range 2 {
				n := 0
				for g := socket * perSocket; g < (socket+1)*perSocket; g++ {
					if !left[g] {
						n++
					}
				}
				if n > 0 && n <= fewest {
					from, fewest = socket, n
				}
			}
			for g := max(0, from) * perSocket; from >= 0 && g < (from+1)*perSocket && len(out) < gpus; g++ {
				if !left[g] {
					left[g] = true
					out = append(out, g)
				}
			}
		}
		slices.Sort(out)
		return out
	}, true)
}

// looked takes the jobs that are looked at by utility: new ones that fit what is free on the first machine, and
// then those that were looked at before, as far as they fit some machine.
func (s *scheduler) looked() (out []int) {
	fits := func(queue []int, free int) (rest []int) {
		for _, id := range queue {
			if s.tasks[id].gpus <= free {
				out = append(out, id)
			} else {
				rest = append(rest, id)
			}
		}
		return rest
	}
	s.fresh = fits(s.fresh, s.hosts[0].freeGPUs())
	for m := range s.hosts {
		if free := s.hosts[m].freeGPUs(); free > 0 {
			s.again = fits(s.again, free)
		}
	}
	return out
}

// utility places each job where it is worth most to all.
func (s *scheduler) utility(postpone bool) (out []decision) {
	ids := s.looked()
	now := &half{parts: map[int]*part{}}
	hosts := slices.Clone(s.hosts)
	for m := range hosts {
		p := &part{host: &hosts[m], rows: [perMachine]bool{true, true, true, true}, running: s.hosts[m].running.clone()}
		for g := range perMachine {
			if !p.allocated[g] {
				p.sockets[socketOf(g)] = append(p.sockets[socketOf(g)], g)
			}
		}
		now.order.put(m)
		now.parts[m] = p
	}
	for _, id := range ids {
		d := s.place(id, now, postpone)
		if out = append(out, d); d.gpus == nil {
			continue
		}
		p := now.parts[d.machine]
		p.running.put(id)
		for _, g := range d.gpus {
			p.allocated[g] = true
		}
		s.tasks[id].has = d.gpus // others see where it is
	}
	return out
}

// place is the decision about a job.
func (s *scheduler) place(id int, now *half, postpone bool) decision {
	t, d := &s.tasks[id], decision{id: id}
	most := 0
	for _, p := range now.parts {
		most = max(most, len(p.free()))
	}
	if t.gpus > most {
		return d
	}
	pairs := s.mapping(t, t.gpus, now.clone(), outside{})
	if len(pairs) != t.gpus {
		return d
	}
	machine := pairs[len(pairs)-1].machine
	p := now.parts[machine]
	if len(pairs) > len(p.free()) {
		return d
	}
	var set []int
	for _, x := range pairs {
		set = append(set, x.gpu)
	}
	if postpone {
		c := costs{p.apart(set, set, false), s.suffers(t, p, set), 0, -1}
		if c.own(len(set)) < t.least {
			return d
		}
	}
	d.machine, d.gpus = machine, set
	return d
}
