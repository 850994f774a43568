package param

import "strings"

// Near is the end of a sentence about a word that is not known: which known
// words come near enough to be what was meant, or nothing. It is empty or begins
// with a semicolon.
func Near(word string, known []string) string {
	var near []string
	best := max(1, len(word)/3) // further away, it is another word
	for _, k := range known {
		d := distance(strings.ToLower(word), strings.ToLower(k), best)
		if d > best {
			continue
		}
		if d < best {
			best, near = d, near[:0]
		}
		if len(near) < maxNear {
			near = append(near, k)
		}
	}
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// maxNear is how many words are offered.
const maxNear = 3

// distance is the number of letters to change, put in, leave out, or swap with
// their neighbours to get from a to b; a number above most when it is more.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j-1]+cost, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
