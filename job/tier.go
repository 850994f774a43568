package job

import (
	"fmt"
	"time"
)

// Tier is what a job is promised of the GPUs that it asks for.
type Tier uint8

// The tiers, as Singularity has them (arXiv 2202.07848).
const (
	Basic    Tier = iota // nothing
	Standard             // 70 % of what it would do on all that it asks for
	Premium              // 95 %
)

var tierNames = [...]string{"basic", "standard", "premium"}

// String is the name of the tier: basic, standard or premium.
func (t Tier) String() string { return tierNames[t] }

// TierNames are the names of all tiers, from the lowest.
func TierNames() []string { return append([]string(nil), tierNames[:]...) }

// ParseTier reads the name of a tier; the empty name is Basic.
func ParseTier(s string) (Tier, bool) { return parseName[Tier](tierNames[:], s) }

// Promise is the GPU fraction that is promised, 0 to 1; 0: none is.
func (t Tier) Promise() float64 { return [...]float64{0, 0.7, 0.95}[t] }

// Fraction is the GPU fraction that a job has had until now, or until it ended: its work done, as
// the time that this takes in the reference configuration, over the time since it was submitted. It
// is 1 at that moment.
func (r *Record) Fraction(now time.Duration) float64 {
	if r.Phase.Over() {
		now = r.End
	}
	if now <= r.Job.Submit {
		return 1
	}
	return r.ProgressAt(now).Seconds() / (now - r.Job.Submit).Seconds()
}

// FractionText says what a job of a tier has had of what it is promised; empty for one that is
// promised nothing.
func (r *Record) FractionText(now time.Duration) string {
	if r.Job.Tier == Basic {
		return ""
	}
	return fmt.Sprintf("%.1f %% of %.0f %% promised", 100*r.Fraction(now), 100*r.Job.Tier.Promise())
}
