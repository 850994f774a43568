package reproduce

import "slices"

// Studies are all that is tried, in the order in which it is shown.
func Studies() []Study {
	return slices.Concat(
		tiresias(), helios(), philly(), pai(), // queueing.go
		gavel(), pop(), allox(), synergy(), shockwave(), pal(), // heterogeneous.go
		themis(), astraea(), gandivaFair(), fgd(), hivedCells(), // fair.go
		mapa(), topologyAware(), cassiniStudies(), mastStudies(), criusStudies(),
		pollux(), sia(), slaq(), ones(), easyscale(), optimus(), afs(), elasticflow(), chronus(), ymir(), // elastic.go
		titanStudies(),
		gas(),
		aSRPT(),
		lyra(), freetrain(), singularity(), // borrowed.go
		lucid(), muri(), gandiva(), antman(), iadeep(), muxflow(), bsbf(), gimbal(), rmixer(), // sharing.go
		decima(), // stages.go
	)
}
