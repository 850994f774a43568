package reproduce

import "slices"

// Studies are all that is tried, in the order in which it is shown.
func Studies() []Study {
	return slices.Concat(lucid(), muri(), synergy(), gavel(), shockwave(), pollux())
}
