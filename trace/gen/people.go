package gen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Figures of the population that no log tells.
const (
	perUser  = 12  // templates for each user
	zipf     = 0.7 // exponent of the weights of templates of one shape
	alike    = 0.8 // correlation of the levels of one user's templates
	tryUsers = 8   // users drawn before the largest tenant gets a large job
)

// template is what one user runs again and again.
type template struct {
	name   string
	user   *user
	demand *job.Demand
	hints  *job.Hints // nil: the log tells no more
	over   float64    // how much longer its user thinks it runs
}

// user is somebody who submits jobs.
type user struct {
	name   string
	tenant *tenantPart
	weight float64
	level  float64 // normal score: long or short runs
}

// tenantPart is a tenant and its part of the cluster.
type tenantPart struct {
	name  string
	gpus  float64
	part  float64
	given float64 // to its users so far
}

// population is built from a random source of its own, so that the people of a
// log stay the same when only the number of jobs changes.
type population struct {
	rng     *rand.Rand
	tenants []tenantPart
	users   []user
	cum     []float64
	demands job.Interner
	names   int
}

// populate makes the tenants, the users and the templates of every shape.
func (g *Generator) populate(tenants int, gpus float64) {
	p := population{rng: rand.New(rand.NewPCG(g.rng.Uint64(), 0x70656f))}
	p.makeTenants(g.from, tenants, gpus)
	p.makeUsers(g.from)
	before := 0.0
	for i := range g.shapes {
		s := &g.shapes[i]
		n := int(math.Ceil(perUser * float64(len(p.users)) * (s.cum - before)))
		before = s.cum
		p.makeTemplates(s, g.from.groups[s.group].cpus, g.from.keyed, n)
	}
}

// makeTenants takes the tenants of the log, or the wanted number of them with
// parts of 1, 1/2, 1/3 and so on.
func (p *population) makeTenants(from *profile, n int, gpus float64) {
	parts := from.tenants
	if n == 0 && len(parts) == 0 {
		n = 1
	}
	if n > 0 && n != len(parts) {
		parts = make([]share, n)
		sum := 0.0
		for i := range parts {
			sum += 1 / float64(i+1)
		}
		for i := range parts {
			parts[i] = share{fmt.Sprintf("team%d", i+1), 1 / float64(i+1) / sum}
		}
	}
	for _, t := range parts {
		p.tenants = append(p.tenants, tenantPart{name: t.name, part: t.part, gpus: t.part * gpus})
	}
}

// makeUsers makes the users of the log, most active first. Each goes to the
// tenant that lacks most of its part.
func (p *population) makeUsers(from *profile) {
	ranks := from.users
	p.users = make([]user, 0, ranks[len(ranks)-1].users)
	last, sum := rank{}, 0.0
	for _, r := range ranks {
		for range r.users - last.users {
			u := user{name: fmt.Sprintf("u%03d", len(p.users)+1), weight: (r.share - last.share) / float64(r.users-last.users), level: p.rng.NormFloat64()}
			u.tenant = &p.tenants[0]
			for i := range p.tenants {
				if t := &p.tenants[i]; t.part-t.given > u.tenant.part-u.tenant.given {
					u.tenant = t
				}
			}
			u.tenant.given += u.weight
			sum += u.weight
			p.users = append(p.users, u)
			p.cum = append(p.cum, sum)
		}
		last = r
	}
}

// draw picks a user for a shape, by activity, whose tenant has room for it; the
// largest tenant always does.
func (p *population) draw(gpus int) *user {
	var u *user
	for range tryUsers {
		v := p.rng.Float64() * p.cum[len(p.cum)-1]
		u = &p.users[pick(len(p.cum), v, func(i int) float64 { return p.cum[i] })]
		if u.tenant.gpus >= float64(gpus) {
			return u
		}
	}
	for i := range p.users {
		if p.users[i].tenant == &p.tenants[0] {
			return &p.users[i]
		}
	}
	return u
}

// words name what users train.
var words = [...]string{"bert", "resnet", "gan", "asr", "tts", "seg", "detect", "rank", "gpt", "vit", "nmt", "ocr", "rl", "embed", "lstm", "graph"}

// makeTemplates makes n templates of a shape and divides the interval from 0 to
// 1 among them, those of users with long runs above those of users with short
// ones. groups says that the log names a group of recurring jobs.
func (p *population) makeTemplates(s *shape, usual []cpus, groups bool, n int) {
	type keyed struct {
		template
		level, weight float64
	}
	made := make([]keyed, n)
	sum := 0.0
	for i := range made {
		t := &made[i]
		t.user = p.draw(s.gpus)
		t.name = p.name(s.model)
		t.over = between(overestimates[:], p.rng.Float64())
		demand := s.demand(drawCPUs(usual, p.rng.Float64()))
		t.demand = p.demands.Get(demand)
		if groups {
			t.hints = &job.Hints{Group: t.name}
		}
		t.weight = math.Pow(float64(i+1), -zipf)
		t.level = alike*t.user.level + math.Sqrt(1-alike*alike)*p.rng.NormFloat64()
		sum += t.weight
	}
	sort.SliceStable(made, func(i, k int) bool { return made[i].level < made[k].level })
	s.templates, s.ends = make([]template, n), make([]float64, n)
	end := 0.0
	for i := range made {
		end += made[i].weight / sum
		s.templates[i], s.ends[i] = made[i].template, end
	}
}

// name is what a user calls the jobs of one template. No two are the same.
func (p *population) name(model string) string {
	if model == "" {
		model = words[p.rng.IntN(len(words))]
	}
	p.names++
	return model + "-" + strconv.Itoa(p.names)
}

// drawCPUs is a usual amount of CPU for each GPU; 0 where none is told.
func drawCPUs(usual []cpus, v float64) (cpu unit.Milli) {
	for _, c := range usual {
		if cpu = c.cpu; v < c.share {
			return cpu
		}
		v -= c.share
	}
	return cpu
}
