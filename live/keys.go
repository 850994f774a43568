package live

import (
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/trace"
)

// The key of a job is the name by which its users know it. There are two sorts: numbers
// that a daemon gives out, 17 or 17_3 of an array, and names that the world brings with
// it, such as team-a/bert. Nothing is read from a name, and one that has ended may come
// again.

// maxKey is the longest name of a job: a namespace and a name of Kubernetes.
const maxKey = 317

// numbered tells whether a key is a number that a daemon gave out, and which: 17, or 17_3.
func numbered(key string) (n, index int64, ok bool) {
	base, rest, isArray := strings.Cut(key, "_")
	if n, ok = digits(base); ok && isArray {
		index, ok = digits(rest)
	}
	return n, index, ok
}

// digits reads a number without a sign that fits into an int64.
func digits(s string) (int64, bool) {
	if s == "" || len(s) >= 19 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// named tells whether a key can be a name: parts with slashes between them, each of
// letters, digits, and within it dashes, dots and underscores.
func named(key string) bool {
	if len(key) > maxKey || !strings.Contains(key, "/") {
		return false
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || strings.IndexByte("-._", part[0]) >= 0 || strings.Trim(part, partOf) != "" {
			return false
		}
	}
	return true
}

// partOf is what a part of a name is made of.
const partOf = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"

// ValidID tells whether a job can be called so: 17, 17_3, or team-a/bert.
func ValidID(id string) bool {
	_, _, ok := numbered(id)
	return ok || named(id)
}

// BaseOf is the key under which a job was submitted: 17 of 17_3. A name is its own.
func BaseOf(key string) string {
	if base, _, isArray := strings.Cut(key, "_"); isArray {
		if _, _, ok := numbered(key); ok {
			return base
		}
	}
	return key
}

// serial is the number of a job for life, by its key: jobs are in order of their numbers,
// and those of an array in that of their indices. It is 0 for a name.
func serial(key string) int64 {
	n, i, ok := numbered(key)
	if !ok {
		return 0
	}
	return n<<24 + i
}

// compareJobs orders jobs as they are listed: by number, and those with names behind by
// submission, then by name.
func compareJobs(key string, submitted time.Time, other string, then time.Time) int {
	_, _, a := numbered(key)
	_, _, b := numbered(other)
	switch {
	case a && !b:
		return -1
	case b && !a:
		return 1
	case !a && !submitted.Equal(then):
		return submitted.Compare(then)
	}
	return trace.CompareKeys(key, other)
}

// compareViews is compareJobs for jobs as users see them.
func compareViews(a, b *api.Job) int { return compareJobs(a.ID, a.Submitted, b.ID, b.Submitted) }

// identity tells jobs apart of which one has the name of another that has ended.
type identity struct {
	key       string
	submitted int64 // Unix time in nanoseconds
}

func identityOf(j *api.Job) identity { return identity{j.ID, j.Submitted.UnixNano()} }
