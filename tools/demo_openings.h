// Sixteen openings for the demo, in the manner of the tales that the bundled model was trained on.
#pragma once

#include <array>
#include <string_view>

namespace tagalong::tools {

inline constexpr std::array<std::string_view, 16> kOpenings{
    "Once upon a time, in a mill beside a slow green river, there lived an old miller and his three "
    "daughters, of "
    "whom the youngest",
    "It was past midnight when the lamp in the inspector's window was put out at last, and the man who had "
    "waited "
    "under the elms",
    "\"You will not find the house by daylight,\" said the ferryman, and he would say no more until",
    "The captain had been silent ever since we lost sight of the island, and when the mate asked him what "
    "course "
    "he should steer,",
    "There was once a fox so vain of his tail that he would never go out in the rain, and one evening",
    "Miss Harriet Lorne had every reason to be content with her situation, and so it surprised her whole "
    "family "
    "when",
    "We came down from the pass at nightfall, wet through and with only one horse between us, and saw below",
    "\"If you please, sir,\" said the boy, holding out the letter with both his hands, \"my mother told me "
    "to",
    "Of all the clocks in the watchmaker's shop there was only one that he had never been able to mend. It "
    "stood",
    "The road to the castle was longer than the princess had been told, and before she had gone half the way",
    "My uncle left me three things when he died: a telescope, a debt, and a sealed box of black wood, which",
    "In the winter of that year the wolves came down as far as the village, and every night the shepherd",
    "\"I have examined the footprints,\" said my friend, rising from his knees, \"and there can be no doubt "
    "that",
    "The mole had never seen the sea, and he did not altogether believe in it; but when the swallow told him",
    "Mr. Pettigrew, who kept the smallest shop in the narrowest street of the town, was a man of regular "
    "habits, and",
    "At the bottom of the garden, behind the wall where nobody ever went, the children found one morning",
};

}  // namespace tagalong::tools
