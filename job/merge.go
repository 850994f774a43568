package job

// Merge is how a job is trained together with another one of the same backbone,
// so that what one learns helps the other (transfer learning; Ymir, ICS 2024).
type Merge uint8

// The ways to merge.
const (
	Apart    Merge = iota // by itself, from the backbone
	Together              // both at the same time on the same devices, as one training
	After                 // goes on from what the other has learnt, when that is done
)

var mergeNames = [...]string{"apart", "together", "after"}

func (m Merge) String() string { return mergeNames[m] }

// Sentence says how a job is trained from now on; other is what a reader knows the
// other job by.
func (m Merge) Sentence(other string) string {
	switch m {
	case Together:
		return "is trained as one with job " + other
	case After:
		return "goes on from what job " + other + " has learnt"
	}
	return "is trained by itself"
}

// MayMerge tells whether two jobs may learn from each other: those of one user may, others
// where both users consent (Job.Share). Jobs of which nobody knows the user are of one.
func MayMerge(a, b *Job) bool { return a.User == b.User || a.Share && b.Share }
